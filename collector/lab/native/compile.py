"""Configures and compiles the server target in a work tree, and names what went wrong in one line."""

from __future__ import annotations

import os
import re
import resource
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzers.errors import UserError
from collector.lab.native.failures import BuildFailedError, told
from collector.lab.native.recipe import COMPILERS, SERVER_TARGET
from collector.lab.native.steps import Step, StepFailedError, run_step
from collector.lab.native.tree import Tree
from collector.lab.reference.cache import cache_folder
from collector.lab.reference.environments import Progress
from collector.lab.reference.output import printable

APT = "apt-get install -y --no-install-recommends g++ cmake ninja-build ccache"
# The largest sources of the server take about a gigabyte of memory each to compile.
BYTES_PER_JOB = 1200 << 20
# Measured for b11138 and b11368: the tree 1.5 GB, the binary once more beside it.
DISK_NEEDED = 2200 << 20
CCACHE_LIMIT = "5G"
PROGRESS_SECONDS = 5.0
_NINJA = re.compile(r"\[\s*(\d+)/(\d+)\]")
_MAKE = re.compile(r"\[\s*(\d+)%\]")


@dataclass(frozen=True)
class Compiled:
    """``seconds`` of wall clock and ``cpu_seconds`` of all its processes; cache hits None without ccache."""

    binary: Path
    seconds: float
    cpu_seconds: float
    cache_hits: int | None
    cache_misses: int | None


def default_jobs() -> int:
    """One per usable processor, as far as the free memory goes."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = _mem_available() or free
    return max(1, min(len(os.sched_getaffinity(0)), available // BYTES_PER_JOB))


def _mem_available() -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) << 10 if found else None


def require_tools(flags: Sequence[str]) -> None:
    """Raises UserError, with the line that installs it, when a compiler, cmake or make is missing. The user's
    own compiler must be there itself: another one would make another build."""
    named = dict(flag.removeprefix("-D").split("=", 1) for flag in flags)
    for variable, language in COMPILERS.items():
        _demand_compiler(variable, named.get(f"CMAKE_{language}_COMPILER"))
    wanted = {
        "a C++ compiler": (named.get("CMAKE_CXX_COMPILER", "c++"), "g++", "clang++"),
        "a C compiler": (named.get("CMAKE_C_COMPILER", "cc"), "gcc", "clang"),
        "cmake": ("cmake",),
        "ninja or make": ("ninja", "make"),
    }
    missing = [what for what, names in wanted.items() if not any(map(shutil.which, names))]
    if missing:
        raise UserError(f"{' and '.join(missing)} is missing", where="native build", remedy=f"run: {APT}")


def _demand_compiler(variable: str, name: str | None) -> None:
    if name is not None and shutil.which(name) is None:
        raise UserError(
            "no such compiler",
            where=f"{variable}={printable(name)}",
            remedy=f"set {variable} to the path of one, without options, or unset it",
        )


def require_disk(folder: Path) -> None:
    """Raises UserError when the disk cannot hold a whole build."""
    free = shutil.disk_usage(folder).free
    if free < DISK_NEEDED:
        raise UserError(
            f"{free >> 20} MB are free, a build needs about {DISK_NEEDED >> 20} MB",
            where=str(folder),
            remedy="free some space (reference clean --trees), or set XDG_CACHE_HOME to a larger disk",
        )


def compile_server(tree: Tree, flags: Sequence[str], jobs: int, progress: Progress) -> Compiled:
    """Configure and build. Raises UserError that names the cause; the whole log stays in the tree."""
    tree.log.unlink(missing_ok=True)
    stats = tree.home / "ccache.stats"
    stats.unlink(missing_ok=True)
    began, cpu = time.monotonic(), _cpu()
    _generator(tree)
    progress("configuring with cmake")
    generator = ["-G", "Ninja" if shutil.which("ninja") else "Unix Makefiles"]
    configure = ["cmake", "-S", "llama.cpp", "-B", "build", *generator, *flags]
    _configure(tree, configure, stats)
    _run(tree, _builder(tree, jobs), stats, _teller(progress, began))
    binary = tree.build / "bin" / SERVER_TARGET
    if not binary.is_file():
        raise UserError(
            f"the build made no {SERVER_TARGET}", where=str(tree.log), remedy="read the log there"
        )
    hits, misses = _ccache(stats)
    return Compiled(binary, time.monotonic() - began, _cpu() - cpu, hits, misses)


def _builder(tree: Tree, jobs: int) -> list[str]:
    """The tool itself, not ``cmake --build``: it is then our direct child and dies with us."""
    tool = "ninja" if (tree.build / "build.ninja").is_file() else "make"
    return [tool, "-C", str(tree.build), "-j", str(jobs), SERVER_TARGET]


def _generator(tree: Tree) -> None:
    """A build folder keeps its generator for life: start anew when ninja came or went."""
    cache = tree.build / "CMakeCache.txt"
    if cache.is_file() and (tree.build / "build.ninja").is_file() != bool(shutil.which("ninja")):
        shutil.rmtree(tree.build)


def _configure(tree: Tree, argv: Sequence[str], stats: Path) -> None:
    """A first configuration that fails leaves no build folder: cmake keeps in it what it did not find."""
    try:
        _run(tree, argv, stats, lambda _: None)
    except BuildFailedError:
        if not any((tree.build / name).is_file() for name in ("build.ninja", "Makefile")):
            shutil.rmtree(tree.build, ignore_errors=True)
        raise


def _run(tree: Tree, argv: Sequence[str], stats: Path, heard: Callable[[str], None]) -> None:
    try:
        run_step(Step(tuple(argv), tree.home, tree.log, _environment(tree, stats)), heard)
    except StepFailedError as error:
        raise told(error, tree.log) from None


def _environment(tree: Tree, stats: Path) -> dict[str, str]:
    return {
        "CCACHE_DIR": str(cache_folder("native", "ccache")),
        "CCACHE_BASEDIR": str(tree.home),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_MAXSIZE": CCACHE_LIMIT,
        "CCACHE_STATSLOG": str(stats),
        # A repository around the cache folder must not lend its commit to the build.
        "GIT_CEILING_DIRECTORIES": str(tree.home.parent),
    }


def _teller(progress: Progress, began: float) -> Callable[[str], None]:
    last = [began]

    def heard(line: str) -> None:
        now = time.monotonic()
        where = where_in_build(line)
        if where is not None and now - last[0] >= PROGRESS_SECONDS:
            last[0] = now
            progress(f"compiling: {where}, {duration(now - began)}")

    return heard


def where_in_build(line: str) -> str | None:
    """``37 of 204`` from ninja, ``18 %`` from make; None for a line without either."""
    if (step := _NINJA.match(line)) is not None:
        return f"{step[1]} of {step[2]}"
    share = _MAKE.match(line)
    return None if share is None else f"{share[1]} %"


def duration(seconds: float) -> str:
    """``6 min 59 s``, ``41 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _ccache(stats: Path) -> tuple[int | None, int | None]:
    try:
        text = stats.read_text("utf-8", "replace")
    except OSError:
        return None, None
    hits = len(re.findall(r"^(?:direct|preprocessed)_cache_hit$", text, re.MULTILINE))
    return hits, len(re.findall(r"^cache_miss$", text, re.MULTILINE))
