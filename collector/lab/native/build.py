"""`prepare_build`: the way from a recipe to a server binary, through the cache.

source package or own tree -> work tree -> patch -> cmake -> builds folder
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.lab.native import store
from collector.lab.native.compile import (
    Compiled,
    compile_server,
    default_jobs,
    require_disk,
    require_tools,
)
from collector.lab.native.fixes import Fix, load_fix
from collector.lab.native.origin import Origin, origin_of
from collector.lab.native.patch import patched
from collector.lab.native.recipe import Recipe, cmake_flags, described, digest, flavour, run_environment
from collector.lab.native.store import NativeBuild
from collector.lab.native.tree import Tree, locked_tree
from collector.lab.reference.environments import Progress, quiet, require_platform

__all__ = ["NativeBuild", "Recipe", "find_build", "prepare_build"]
VERSION_DEADLINE = 20.0


@dataclass(frozen=True)
class Plan:
    """A recipe with everything looked up that decides what comes out."""

    recipe: Recipe
    origin: Origin
    fix: Fix | None
    flags: tuple[str, ...]

    @property
    def name(self) -> str:
        return described(self.origin.label, self.recipe.fix, self.recipe.asan)

    @property
    def key(self) -> str | None:
        """Of the finished build; None while the source's hash is not known."""
        source = self.origin.sha256
        fix = self.fix.sha256 if self.fix else None
        return None if source is None else digest(source, fix, self.all_flags)

    @property
    def all_flags(self) -> tuple[str, ...]:
        """llama.cpp's own names for what ``--version`` prints: there is no repository to ask."""
        number, commit = self.origin.number, self.origin.commit
        return (*self.flags, f"-DLLAMA_BUILD_NUMBER={number}", f"-DLLAMA_BUILD_COMMIT={commit}")

    @property
    def tree_name(self) -> str:
        return f"{self.origin.tree_name}-{flavour(self.recipe)}-{digest(self.flags)}"


def plan_of(recipe: Recipe) -> Plan:
    """Raises UserError for an unknown fix, an impossible number, or a folder that is no llama.cpp tree."""
    recipe.check()
    fix = load_fix(recipe.fix) if recipe.fix else None
    return Plan(recipe, origin_of(recipe), fix, cmake_flags(recipe))


def find_build(recipe: Recipe) -> NativeBuild | None:
    """The finished build of this recipe when the cache has it; nothing is made or fetched.

    Raises UserError as ``plan_of``.
    """
    return _found(plan_of(recipe))


def _found(plan: Plan) -> NativeBuild | None:
    return store.find(plan.key) if plan.key is not None else None


def prepare_build(
    recipe: Recipe, *, progress: Progress = quiet, offline: bool = False, jobs: int | None = None
) -> NativeBuild:
    """The server of this recipe, compiled on first use.

    A second process that wants the same tree waits for the first; a half-built server is never handed out.
    ``progress`` gets one line per step. ``offline`` forbids fetching, not compiling. Raises UserError that
    names what is missing: package, patch place, compiler, disk, memory.
    """
    require_platform(sys.platform, platform.machine())
    plan = plan_of(recipe)
    made = _found(plan)
    if made is not None:
        return made
    require_tools(plan.flags)
    with locked_tree(plan.tree_name, progress) as tree:
        return _found(plan) or _make(plan, tree, jobs or default_jobs(), progress, offline)


def _make(plan: Plan, tree: Tree, jobs: int, progress: Progress, offline: bool) -> NativeBuild:
    if not (tree.build / "CMakeCache.txt").is_file():
        require_disk(tree.home)
    plan.origin.place(tree, progress, offline)
    texts = patched(plan.fix, plan.origin.label, plan.origin.read(tree)) if plan.fix else {}
    plan.origin.put(tree, texts)
    compiled = compile_server(tree, plan.all_flags, jobs, progress)
    progress("keeping the binary")
    assert plan.key is not None  # noqa: S101 - the source is placed
    return store.publish(plan.key, compiled.binary, tree.log, _record(plan, tree, compiled, jobs))


def _record(plan: Plan, tree: Tree, compiled: Compiled, jobs: int) -> dict[str, Any]:
    return {
        "name": plan.name,
        "build": plan.origin.number,
        "commit": plan.origin.commit,
        "fix": plan.recipe.fix,
        "asan": plan.recipe.asan,
        "own_source": plan.recipe.source is not None,
        "source_sha256": plan.origin.sha256,
        "fix_sha256": plan.fix.sha256 if plan.fix else None,
        "flags": list(plan.all_flags),
        "compiler": _compiler(tree),
        "cmake": _first_line(["cmake", "--version"]),
        "jobs": jobs,
        "seconds": round(compiled.seconds, 1),
        "cpu_seconds": round(compiled.cpu_seconds, 1),
        "ccache": {"hits": compiled.cache_hits, "misses": compiled.cache_misses},
        "bytes": {"binary": compiled.binary.stat().st_size, "tree": folder_bytes(tree.home)},
        "date": time.strftime("%Y-%m-%d"),
        "environment": run_environment(plan.recipe),
    }


def _compiler(tree: Tree) -> str:
    """The C++ compiler that cmake chose, and what it calls itself."""
    cache = (tree.build / "CMakeCache.txt").read_text("utf-8", "replace")
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache, re.MULTILINE)
    return _first_line([found[1], "--version"]) if found else "unknown"


def _first_line(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=VERSION_DEADLINE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.partition("\n")[0].strip() or "unknown"


def folder_bytes(folder: Path) -> int:
    """Bytes on disk below ``folder``; links are not followed."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:  # gone meanwhile
                continue
    return total
