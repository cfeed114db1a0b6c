"""Killed, or on a full disk, at random moments: the handler leaves a capture or a trace, which is adopted."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_lab import THREADS, Place, compiled, manifest, needs_gcc, needs_root, place, until
from test_crash_faults import SPAN, _alive, core_of, family, start

from analyzers.core.notes import read_core
from collector.capture.crash.settings import written
from collector.capture.kept.adopt import adopt
from collector.capture.kept.captures import captures

pytestmark = [pytest.mark.real, needs_root, needs_gcc]
LATER = 3600.0  # a minute after the last change a folder is nobody's
GATE = 3
MANY = 20
counts = pytest.mark.parametrize("count", [GATE, pytest.param(MANY, marks=pytest.mark.full)])


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    source = THREADS.replace("pthread_create(&t, 0, run, (void *)1)", "pthread_create(&t, 0, run, 0)")
    process = subprocess.Popen([compiled(tmp_path_factory.mktemp("programs"), "llama-server", source)])
    assert until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 21)
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def made() -> Iterator[Place]:
    with place() as found:
        yield found


def _adopted(store: Path) -> bool:
    list(adopt(store, now=time.time() + LATER))
    return not list(store.glob(".partial-*"))


def demand_told(store: Path, pid: int) -> None:
    """Everything is finished now, and each says what it is."""
    assert until(lambda: _adopted(store))  # a child that was forked at the last moment dies a little later
    for one in captures(store):
        assert one.pid == pid
        assert one.told["schema"] == "llama-blackbox/capture/1"
        for name, row in one.told["files"].items():
            assert (one.path / name).stat().st_size == row["size"], name
        if one.core is None:
            assert one.refused or any("core" in gap["part"] for gap in one.told["gaps"])
        else:
            core = read_core(one.core)
            cut = any(gap["part"].startswith("file core") for gap in one.told["gaps"])
            assert cut or not core.cut


@counts
@pytest.mark.parametrize("mode", ["minimal", "full"])
def test_kill_9_at_random_moments(living: int, made: Place, tmp_path: Path, count: int, mode: str) -> None:
    made.settings(written(mode, str(made.store)) + "reserve = 0\n")
    core, chance = core_of(living, tmp_path), random.Random(f"{mode}{count}")
    for _ in range(count):
        shutil.rmtree(made.store, ignore_errors=True)
        handler = start(made, living, core)
        assert until(lambda: bool(made.partial() or made.captures()))
        time.sleep(chance.random() * SPAN)
        members = family(handler.pid)
        for pid in members:
            if _alive(pid):
                os.kill(pid, signal.SIGKILL)
        handler.wait()
        assert until(lambda members=members: not any(map(_alive, members)))  # type: ignore[misc]
        demand_told(made.store, living)
        assert len(captures(made.store)) == 1


@counts
@pytest.mark.parametrize("mode", ["minimal", "full"])
def test_a_disk_that_is_full_at_random_moments(
    living: int, made: Place, tmp_path: Path, count: int, mode: str
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    made.settings(written(mode, str(small / "store")) + "reserve = 0\n")
    core, chance = core_of(living, tmp_path), random.Random(f"{mode}{count}")
    for _ in range(count):
        pages = int(2 ** chance.uniform(2, 9.5))
        mounted = ["mount", "-t", "tmpfs", "-o", f"size={pages * 4096},mode=700", "none", str(small)]
        subprocess.run(mounted, check=True)
        try:
            start(made, living, core).wait(30)
            left = list((small / "store").glob(".partial-*")) if (small / "store").is_dir() else []
            for folder in left:
                assert json.loads((folder / "trace.json").read_text())["state"] == "refused"
            # WHEN there is room again
            subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
            if (small / "store").is_dir():
                demand_told(small / "store", living)
            for folder in left:
                found = small / "store" / folder.name.removeprefix(".partial-")
                assert manifest(found)["adopted"]["why"]
        finally:
            subprocess.run(["umount", str(small)], check=True)


@counts
def test_an_adoption_that_is_killed_is_done_by_the_next(
    living: int, made: Place, tmp_path: Path, count: int
) -> None:
    core, chance = core_of(living, tmp_path), random.Random(count)
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from collector.capture.kept.adopt import adopt\n"
        "left = int(sys.argv[2])\nreal = os.fsync\n"
        "def sync(d):\n    global left\n    left -= 1\n    os.kill(os.getpid(), 9) if left < 0 else real(d)\n"
        "os.fsync = sync\nlist(adopt(Path(sys.argv[1]), now=1e12))\n"
    )
    for _ in range(count):
        shutil.rmtree(made.store, ignore_errors=True)
        handler = start(made, living, core)
        assert until(lambda: bool(made.partial() or made.captures()))
        members = family(handler.pid)
        for pid in members:
            os.kill(pid, signal.SIGKILL)
        handler.wait()
        assert until(lambda members=members: not any(map(_alive, members)))  # type: ignore[misc]
        words = [sys.executable, "-c", program, str(made.store), str(chance.randrange(4))]
        subprocess.run(words, check=False, capture_output=True)
        demand_told(made.store, living)
        assert len(captures(made.store)) == 1
