"""How long a crashed server stays dying: no core, a plain core file, a minimal and a full capture.

Run as root: ``python -m tests.bench.dying [ROUNDS] [MEGABYTES]``. Prints medians in milliseconds from the
signal to the reaped process, and each way's share of what a plain core file adds to no core at all.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / "capture"))

from crash_lab import CRASHER, Place, compiled, pattern_set, place, until

from collector.lab.reference import ReferenceServer, RunningServer, ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, prepare

WAYS = ("no core", "plain core", "minimal", "full")
Reap = Callable[[], float]  # waits for the end; its moment on the monotonic clock
Start = Callable[[Path], tuple[int, Reap]]


def dying(pid: int, reap: Reap) -> float:
    """Milliseconds from SIGSEGV to the end of the process."""
    began = time.monotonic()
    os.kill(pid, signal.SIGSEGV)
    return (reap() - began) * 1000


def _ended(server: RunningServer) -> float:
    assert until(lambda: server.ending is not None)
    assert server.ending is not None
    return server.ending.when_mono


def program(path: Path, megabytes: int) -> Start:
    """A C program that fills memory and waits for the signal."""

    def start(folder: Path) -> tuple[int, Reap]:
        running = subprocess.Popen([path, str(megabytes)], cwd=folder, stdout=subprocess.PIPE)
        assert running.stdout is not None
        running.stdout.readline()
        return running.pid, lambda: (running.wait(), time.monotonic())[1]

    return start


def hosted(lab: ReferenceServer) -> Start:
    """A real hosted server of the wheel."""

    def start(folder: Path) -> tuple[int, Reap]:
        server = lab.start(ServerSpec(cached_model(), python=prepare(STALE_CAPTURE_VERSION)))
        return server.pid, lambda: _ended(server)

    return start


def measure(start: Start, rounds: int, folder: Path) -> dict[str, list[float]]:
    """Each way in turn, ``rounds`` times, so that a change of the machine's mood meets all of them."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with place(mode="minimal") as minimal, place(mode="full") as full:
        for _ in range(rounds):
            for way in WAYS:
                pid, reap = start(folder)
                with pattern_set(_line(way, minimal, full)):
                    resource.prlimit(pid, resource.RLIMIT_CORE, _limit(way))
                    found[way].append(dying(pid, reap))
                    until(lambda: not minimal.partial() and not full.partial())
                _clean(folder, minimal, full)
    return found


def _line(way: str, minimal: Place, full: Place) -> str:
    return {"minimal": minimal.line, "full": full.line}.get(way, "core")


def _limit(way: str) -> tuple[int, int]:
    size = 0 if way == "no core" else resource.RLIM_INFINITY
    return size, resource.RLIM_INFINITY


def _clean(folder: Path, *places: Place) -> None:
    for made in places:
        shutil.rmtree(made.store, ignore_errors=True)
    for core in folder.rglob("core"):
        core.unlink()


def show(name: str, found: dict[str, list[float]]) -> None:
    """One line per way."""
    base, plain = (statistics.median(found[way]) for way in WAYS[:2])
    for way, values in found.items():
        share = (statistics.median(values) - base) / (plain - base)
        print(f"{name:24} {way:12} {statistics.median(values):8.1f} ms  {share:7.1%}  min {min(values):.1f}")


def main(words: list[str]) -> int:
    """Both kinds of process."""
    rounds, megabytes = int(words[0]) if words else 5, int(words[1]) if len(words) > 1 else 1000
    waiting = CRASHER.replace("*(volatile int *)8 = 1;", 'puts("x"); fflush(stdout); for (;;) pause();')
    waiting = "#include <stdio.h>\n#include <unistd.h>\n" + waiting
    folder = Path(tempfile.mkdtemp(prefix="lbc-bench-"))
    try:
        path = compiled(folder, "llama-server", waiting)
        show(f"program of {megabytes} MB", measure(program(path, megabytes), rounds, folder))
        with ReferenceServer(folder / "servers") as lab:
            show("hosted server", measure(hosted(lab), rounds, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
