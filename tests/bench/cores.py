"""Cores of real D2 crashes, provoked once by the lab and kept under the user's cache folder by content."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from analyzers.core.buildid import build_id_of_file, find_executable
from analyzers.core.notes import read_core
from analyzers.core.packed import opened
from analyzers.stacks.ladder import unwind
from collector.lab.demo.scenes import with_core
from collector.lab.faults.d2_unload_under_reader import COMPLETION, COMPLETION_UNPOISONED, PHASES, attempt
from collector.lab.faults.pinning import Pinned, pin
from collector.lab.faults.provoked import CRASH, HANG, Expected, Provoked, Say, Stage, closed
from collector.lab.reference.cache import cache_folder, publish
from collector.lab.reference.environments import UNLOAD_VERSION, environment_key, prepare
from collector.lab.reference.gguf import ModelSpec, cached_model, write_model
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec
from tests.bench.measure import MeasureError
from tests.bench.table import MEBI

# Raised when a core of the same name would be provoked in another way.
RECIPE = 1
TRIES = 8
# Two of nine unpoisoned crashes were endless recursions; forty misses in a row then have odds of 1 : 20,000.
RECURSION_TRIES = 40
RECURSION_FRAMES = 1000  # equal frames; a real one has tens of thousands, a deep stack a few hundred
TIMES_LARGER = 10
CRASHED_AS = "SEGV-UAF-SLEEP"
# The other two sizes come from the padded model's remaining tensors, scratch memory and the longer prompt.
PADDING_TIMES = 8.2
# Many narrow layers: one wide layer would need gigabytes of scratch memory to compute.
PADDED = ModelSpec(layers=48, embedding=256, feed_forward=512)
# A token through the padded weights takes a second, and the idle limit must be far above it.
PADDED_IDLE_SECONDS = 5
# The connection breaks only when the core is written, and two gigabytes take a slow disk that long.
PADDED_PATIENCE = 60.0
# The padding must still be in the process when it dies, after the sleep freed it: keep freed memory on the
# heap instead of handing it back to the kernel (mallopt(3)).
READ_IN = {"load_mode": 0}  # LLAMA_LOAD_MODE_NONE: weights in anonymous memory, which a core holds
KEEP_FREED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}


@dataclass(frozen=True)
class BenchCore:
    """A core on disk, its executable, and how it came to be. ``size`` in bytes."""

    path: Path
    exe: Path
    size: int
    note: str


def ordinary(say: Say, binary: Path | None = None) -> BenchCore:
    """The crash of the demo: one reader faults under a route handler, freed memory poisoned.

    ``binary``: a native llama-server instead of the hosted one.
    """
    play = partial(attempt, shape=COMPLETION)
    name = _named("ordinary", binary)
    return _kept(name, say, lambda: _provoke(_base(say, binary), play, TRIES, _is_ordinary, say))


def recursion(say: Say, binary: Path | None = None) -> BenchCore:
    """The crash whose reader recurses until its stack is full; freed memory is left as it was."""
    play = partial(attempt, shape=COMPLETION_UNPOISONED)
    name = _named("recursion", binary)
    return _kept(name, say, lambda: _provoke(_base(say, binary), play, RECURSION_TRIES, is_recursion, say))


def _named(name: str, binary: Path | None) -> str:
    """A native server's cores are kept by what it was built from: the server's library or the program."""
    if binary is None:
        return name
    parts = [binary, *sorted(binary.parent.glob("*.so"))]
    identity = "".join(f"{build_id_of_file(part.resolve())}" for part in parts)
    return f"{name}-native-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def large(small: BenchCore, say: Say) -> BenchCore:
    """The ordinary crash with ten times as much memory in the process."""
    padding = int(small.size * PADDING_TIMES) // MEBI

    @contextmanager
    def provoke() -> Iterator[tuple[Path, str]]:
        with tempfile.TemporaryDirectory(prefix="llama-blackbox-bench-") as folder:
            model = Path(folder) / "padded.gguf"
            say(f"writing a model with {padding} MiB of padding")
            write_model(replace(PADDED, padding_mib=padding), model)
            stage = _base(say)
            padded = replace(stage.base, model=model, parameters=READ_IN, environment=KEEP_FREED)
            patient = Stage(stage.lab, padded, say=say)
            with _provoke(patient, _patient_attempt, TRIES, _is_ordinary, say) as made:
                yield made

    core = _kept(f"large-{padding}", say, provoke)
    if core.size < TIMES_LARGER * small.size:
        raise MeasureError(
            f"the padded core has {core.size / small.size:.1f} times the size, not {TIMES_LARGER}"
        )
    return core


Provoke = Callable[[], Any]


def _kept(name: str, say: Say, provoke: Provoke) -> BenchCore:
    """The cached core ``name``, provoked when it is missing."""
    folder = cache_folder("bench", key(name))
    path, about = folder / "core", folder / "about.json"
    if not (path.is_file() and about.is_file()):
        say(f"provoking the {name} core")
        with provoke() as (found, note):
            publish(path, lambda draft: _move(found, draft))
            about.write_text(json.dumps({"name": name, "note": note}), encoding="utf-8")
    exe = find_executable(read_core(path)).main
    if exe is None or not Path(exe).is_file():
        raise MeasureError(f"the executable of the {name} core is gone; remove {folder} and run again")
    return BenchCore(path, Path(exe), path.stat().st_size, json.loads(about.read_text("utf-8"))["note"])


def key(name: str) -> str:
    """Names what a core depends on: how it is provoked, server, interpreter and C library."""
    parts = [RECIPE, name, environment_key(UNLOAD_VERSION), ModelSpec().key, *platform.libc_ver()]
    return f"{name}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def _base(say: Say, binary: Path | None = None) -> Stage:
    if binary is not None:
        return Stage(ReferenceServer(), ServerSpec(model=cached_model(), binary=binary), say=say)
    python = prepare(UNLOAD_VERSION, progress=say)
    return Stage(ReferenceServer(), ServerSpec(model=cached_model(), python=python), say=say)


def _patient_attempt(stage: Stage) -> Provoked:
    """COMPLETION's crash, with an idle limit and a patience that suit a slow model and a large core."""
    server = stage.start(idle_seconds=PADDED_IDLE_SECONDS, poisoned=True)
    pinned = pin(server, COMPLETION.request, COMPLETION.offset)
    server.wait_until(lambda each: each.finished or _answered(pinned), PADDED_PATIENCE)
    expected = Expected(CRASHED_AS, ("sleep",), PHASES, "D2", (COMPLETION.handler,))
    outcome = CRASH if server.finished else HANG
    return closed(COMPLETION.name, expected, server, outcome, happened=outcome == CRASH)


def _answered(pinned: Pinned) -> bool:
    answer = pinned.pending.answer
    return answer is not None and answer.status is not None


@contextmanager
def _provoke(
    stage: Stage, play: Callable[[Stage], Provoked], tries: int, wanted: Callable[[Path], bool], say: Say
) -> Iterator[tuple[Path, str]]:
    """Crash servers until a core is as ``wanted``; yields its path, unpacked, and a note."""
    with stage.lab:
        for number in range(1, tries + 1):
            provoked = with_core(play, stage)
            say(f"try {number} of {tries}: {provoked.outcome}; {provoked.core.reason}")
            if provoked.outcome != CRASH or provoked.core.path is None:
                continue
            with opened(provoked.core.path) as path:
                if wanted(path):
                    yield path, _note(provoked)
                    return
            _forget(provoked)
    raise MeasureError(f"{tries} tries left no core of the wanted kind")


def _note(provoked: Provoked) -> str:
    poison = "freed memory poisoned" if provoked.server.spec.poisoned else "freed memory not poisoned"
    saved = "; core saved by gdb" if provoked.server.under_gdb else ""
    binary = provoked.server.spec.binary
    server = f"a native {binary.name}" if binary else f"xllamacpp {UNLOAD_VERSION}"
    return f"{provoked.name} on {server}, {poison}{saved}"


def _forget(provoked: Provoked) -> None:
    """Remove a core that is not wanted, when it is the lab's own file."""
    path = provoked.core.path
    if path is not None and path.is_relative_to(provoked.server.folder):
        path.unlink(missing_ok=True)


def is_recursion(path: Path) -> bool:
    return _deepest(path) >= RECURSION_FRAMES


def _is_ordinary(path: Path) -> bool:
    return 0 < _deepest(path) < RECURSION_FRAMES


def _deepest(path: Path) -> int:
    """The most equal frames in a row on the stack that died; 0 when it could not be unwound."""
    crashed = unwind(read_core(path)).crashed
    return max((frame.repeat for frame in crashed.frames), default=0) if crashed else 0


def _move(found: Path, draft: Path) -> None:
    """Copy with holes kept; a core is mostly holes."""
    with found.open("rb") as source, draft.open("r+b") as target:
        while block := source.read(MEBI):
            if block.count(0) == len(block):
                target.seek(len(block), 1)
            else:
                target.write(block)
        target.truncate()
    shutil.copymode(found, draft)
