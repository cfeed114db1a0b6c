"""Hostile cores through the whole command: no limit is passed, nothing is written elsewhere, one answer.

The tools run too: eu-stack on every core, gdb where ``--fast`` is not given.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hostile_cores import (
    MAKERS,
    a_million_threads,
    a_terabyte_of_nothing,
    files_that_are_traps,
    overlapping_segments,
    sizes_that_lie,
)
from hostile_run import CPU_SECONDS, GDB_RESIDENT, RESIDENT, STRACE, Ran, outside, run

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def answered(ran: Ran, resident: int = RESIDENT) -> None:
    """A verdict, an honest "undetermined" or one line of refusal; within every limit."""
    assert ran.status in (0, 2, 3), (ran.status, ran.err[-2000:])
    assert "Traceback" not in ran.err
    assert "internal error" not in ran.err
    assert not _STEERING.search(ran.out)
    assert not _STEERING.search(ran.err)
    assert ran.cpu < 2 * CPU_SECONDS, ran.cpu
    assert ran.peak < resident, ran.peak
    if ran.status != 2:
        assert json.loads(ran.out)["verdict"]["class"]


def only_its_own(folder: Path, *kept: str) -> None:
    """Nothing stands in the folder but what was there before, and nothing is left in its temporary one."""
    assert {path.name for path in folder.iterdir()} <= {"tmp", "home", *kept}
    assert list((folder / "tmp").iterdir()) == []
    assert [path for path in (folder / "home").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_hostile_core_stays_within_its_limits(tmp_path: Path, make) -> None:
    # GIVEN a core that lies
    path = tmp_path / "core"
    make(path)
    before = path.stat()
    # WHEN the command reads it, its memory and CPU bounded by the kernel
    ran = run(tmp_path, "--json", "--fast", path)
    # THEN it answers, leaves nothing, and the core is as it was
    answered(ran)
    only_its_own(tmp_path, "core", "fifo")
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_mode) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_mode,
    )
    path.unlink()


@pytest.mark.parametrize(
    "make",
    [sizes_that_lie, a_terabyte_of_nothing, pytest.param(overlapping_segments, marks=pytest.mark.full)],
    ids=lambda make: make.__name__,
)
def test_so_do_the_debugger_and_the_hash_that_follow(tmp_path: Path, make) -> None:
    path = tmp_path / "core"
    make(path)
    answered(run(tmp_path, "--json", path), GDB_RESIDENT)
    only_its_own(tmp_path, "core")


@pytest.mark.full
def test_a_million_threads_with_the_debugger(tmp_path: Path) -> None:
    path = tmp_path / "core"
    a_million_threads(path)
    ran = run(tmp_path, "--json", path)
    answered(ran, GDB_RESIDENT)
    assert "only the first" in ran.out
    path.unlink()


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize("make", [sizes_that_lie, files_that_are_traps], ids=lambda make: make.__name__)
def test_every_system_call_that_writes_stays_in_the_private_folder(tmp_path: Path, make) -> None:
    # GIVEN the command and its tools under strace WHEN a core is read, packed too, so that there is a copy
    import gzip

    made = tmp_path / "core"
    make(made)
    path = tmp_path / "core.gz"
    path.write_bytes(gzip.compress(made.read_bytes()))
    ran = run(tmp_path, "--json", path, traced=True)
    # THEN the copy was seen being written, and nothing else was
    assert ran.status in (0, 3), ran.err[-2000:]
    assert any(path.startswith(str(tmp_path / "tmp")) for path in ran.written)
    assert outside(ran, tmp_path) == []
    only_its_own(tmp_path, "core", "core.gz", "trace", "fifo")
