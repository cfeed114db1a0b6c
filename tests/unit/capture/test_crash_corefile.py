"""The core writer: what it writes is what the repository's own core reader finds again."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzers.core.notes import read_core
from collector.capture.crash import notes
from collector.capture.crash.corefile import PAGE, Segment, write_core, write_sparse
from collector.capture.kept.slimming import slim

REGISTERS = tuple(range(100, 127))
CODE = 0x400000
STACK = 0x7FFF0000


@pytest.fixture
def target(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "core", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    yield descriptor
    os.close(descriptor)


def some_notes() -> bytes:
    return b"".join(
        (
            notes.prstatus(7, REGISTERS, signal=11, parent=3),
            notes.prpsinfo(5, b"llama-server", b"llama-server -m x", parent=3),
            notes.siginfo(11, 1, 0xDEAD000),
            notes.auxiliary((3).to_bytes(8, "little") + CODE.to_bytes(8, "little") + bytes(16)),
            notes.files([(CODE, CODE + PAGE, PAGE, b"/opt/llama-server")]),
            notes.prstatus(8, bytes(notes.REGISTER_BYTES)),
        )
    )


def test_the_reader_finds_what_was_written(tmp_path: Path, target: int) -> None:
    # GIVEN two segments out of order, one of them from a reader, one shorter in the file than in memory
    memory = bytes(range(256)) * 32
    segments = [
        Segment(STACK, size=len(memory), read=lambda at, size: memory[at - STACK : at - STACK + size]),
        Segment(CODE, b"\x7fELF" * 8, size=3 * PAGE),
    ]
    # WHEN the core is written
    written = write_core(target, some_notes(), segments)
    # THEN the reader sees the threads, the fault, the files and the memory
    core = read_core(tmp_path / "core")
    assert (core.signal, core.si_code, core.fault_address, core.pid, core.parent) == (11, 1, 0xDEAD000, 5, 3)
    assert [thread.tid for thread in core.threads] == [7, 8]
    assert core.threads[0].registers["rsp"] == REGISTERS[notes.RSP]
    assert core.mapped[0].path == "/opt/llama-server"
    assert core.mapped[0].file_offset == PAGE
    assert core.read(STACK, len(memory)) == memory
    assert core.read(CODE, 8) == b"\x7fELF" * 2
    assert not core.cut
    assert (written.size, written.unread) == ((tmp_path / "core").stat().st_size, 0)


def test_addresses_and_offsets_are_congruent(tmp_path: Path, target: int) -> None:
    write_core(target, some_notes() + b"x", [Segment(CODE, b"x"), Segment(STACK, b"y" * PAGE)])
    core = read_core(tmp_path / "core")
    assert [(row.address - row.file_offset) % PAGE for row in core.segments] == [0, 0]
    assert core.read(STACK, PAGE) == b"y" * PAGE


def test_a_reader_that_gives_less_leaves_zeros_that_are_counted(tmp_path: Path, target: int) -> None:
    segment = Segment(STACK, size=4 * PAGE, read=lambda at, size: b"z" * PAGE if at == STACK else b"")
    written = write_core(target, b"", [segment])
    assert written.unread == 3 * PAGE
    assert read_core(tmp_path / "core").segments[0].file_size == 4 * PAGE


def test_a_reader_that_gives_more_cannot_write_past_its_segment(tmp_path: Path, target: int) -> None:
    rows = [
        Segment(CODE, size=PAGE, read=lambda at, size: b"a" * (size + 9000)),
        Segment(CODE + PAGE, b"b" * 16),
    ]
    write_core(target, b"", rows)
    core = read_core(tmp_path / "core")
    assert (core.read(CODE + PAGE - 1, 1), core.read(CODE + PAGE, 1)) == (b"a", b"b")


@pytest.mark.parametrize(
    "segments",
    [
        [Segment(CODE, b"x" * PAGE), Segment(CODE + PAGE - 1, b"y")],
        [Segment((1 << 64) - PAGE, b"x" * PAGE + b"y")],
        [Segment(CODE + 0x123, b"x")],
        [Segment(CODE, b"x", size=-PAGE)],
        [Segment(CODE, b"xyz", size=1)],
        [Segment(page * PAGE, b"x") for page in range(65_001)],
    ],
)
def test_unsound_segments_are_refused_before_anything_is_written(
    target: int, segments: list[Segment]
) -> None:
    with pytest.raises(ValueError, match="segment"):
        write_core(target, b"", segments)
    assert os.fstat(target).st_size == 0


@pytest.mark.parametrize(
    ("address", "size", "why"),
    [
        (CODE + 0x10, PAGE, "begins on no page boundary"),
        (STACK - PAGE, 2 * PAGE, "overlaps another"),
        ((1 << 64) - PAGE, 1 << 63, "leaves the address space"),
    ],
)
def test_a_core_no_kernel_wrote_is_refused_by_the_slimming_and_told_by_the_reader(
    tmp_path: Path, target: int, address: int, size: int, why: str
) -> None:
    # GIVEN a sound core whose first segment is moved
    write_core(target, some_notes(), [Segment(CODE, b"x" * PAGE), Segment(STACK, b"y" * PAGE)])
    path = tmp_path / "core"
    data = bytearray(path.read_bytes())
    row = 64 + 56
    struct.pack_into("<Q", data, row + 16, address)
    struct.pack_into("<Q", data, row + 40, size)
    path.write_bytes(data)
    # WHEN it is slimmed, nothing is made of it
    made = os.open(tmp_path / "slim", os.O_CREAT | os.O_RDWR)
    with pytest.raises(ValueError, match="segment"):
        slim(path, made)
    assert os.fstat(made).st_size == 0
    os.close(made)
    # THEN the reader says so
    assert any(why in limit for limit in read_core(path).limits)


def test_the_limit_holds_before_anything_is_written(target: int) -> None:
    with pytest.raises(ValueError, match="more than"):
        write_core(target, b"", [Segment(CODE, size=1 << 39, read=lambda at, size: b"")], limit=1 << 20)
    assert os.fstat(target).st_size == 0


def test_zero_pages_become_holes_and_read_back_as_zeros(tmp_path: Path, target: int) -> None:
    data = b"a" * PAGE + bytes(64 * PAGE) + b"b" * 100
    assert write_sparse(target, data, 0) == PAGE + 100
    assert (tmp_path / "core").read_bytes() == data
    assert os.fstat(target).st_blocks * 512 < len(data) // 2
