"""Cores that lie: about sizes, about where memory is, with more notes, threads or segments than there can be.

Each is written to a file as large as it must be and, where holes will do, no larger.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fixtures.elfcore import CoreBuilder, header, note, program_header, prstatus

LOAD, NOTES = 1, 4
READ_WRITE = 6
STACK, CODE = 0x7F0000000000, 0x400000
TOP = (1 << 64) - 1
MILLION = 1_000_000
BOMB_BYTES = 8 << 30  # a hole: NUL bytes are notes of no name, no body and type 0
TERABYTE = 1 << 40


def _honest() -> CoreBuilder:
    made = CoreBuilder()
    for tid in range(4000, 4004):
        made.thread(tid, rip=CODE + 16, rsp=STACK + 64, rbp=STACK + 128)
    made.file(CODE, CODE + 4096, 0, "/opt/gone/llama-server").load(CODE, bytes(4096), flags=5)
    return made.load(STACK, struct.pack("<Q", CODE + 32) * 64)


def _core(path: Path, notes: bytes, rows: list[tuple[int, int, int, int]], count: int | None = None) -> None:
    """Notes and PT_LOAD rows (offset, address, file size, memory size), none of them checked."""
    at = 64 + 56 * (len(rows) + 1)
    table = [program_header(NOTES, 0, at, 0, len(notes), 0)]
    table += [program_header(LOAD, READ_WRITE, *(value & TOP for value in row)) for row in rows]
    path.write_bytes(header(phnum=len(table) if count is None else count) + b"".join(table) + notes)


def sizes_that_lie(path: Path) -> None:
    """Every size and offset at which an addition overflows, or memory would be asked for."""
    edges = (0, 1, 4096, 1 << 31, 1 << 32, 1 << 47, 1 << 62, 1 << 63, TOP - 4095, TOP)
    rows = [(a, STACK + 64, b, c) for a in edges for b in edges for c in (1, 1 << 40, TOP)]
    _core(path, _honest().notes(), rows)


def overlapping_segments(path: Path) -> None:
    """60,000 segments of all memory, each within the others and in the file's own header."""
    rows = [(at % 64, at * 4096, 1 << 46, 1 << 47) for at in range(60_000)]
    _core(path, _honest().notes(), rows)


def nested_notes(path: Path) -> None:
    """Sixteen note segments that are the whole file, and headers that are notes."""
    body = _honest().notes()
    rows = [program_header(NOTES, 0, 0, 0, 1 << 40, 0) for _ in range(65_000)]
    path.write_bytes(header(phnum=len(rows)) + b"".join(rows) + body)


def note_bomb(path: Path) -> None:
    """Eight gigabytes of the smallest notes there are, in a hole."""
    path.write_bytes(header(phnum=1) + program_header(NOTES, 0, 120, 0, BOMB_BYTES, 0))
    os.truncate(path, BOMB_BYTES)


def a_million_threads(path: Path) -> None:
    """A million registers, each of a thread of its own that waits on a stack which all of them share."""
    made = bytearray(note(1, prstatus(1, 11, {"rip": CODE + 16, "rsp": STACK + 64})))
    tid_at = made.index(struct.pack("<i", 1), 20 + 16)
    with path.open("wb") as file:
        file.write(header(phnum=2))
        file.write(program_header(NOTES, 0, 64 + 112, 0, len(made) * MILLION, 0))
        file.write(program_header(LOAD, READ_WRITE, 0, STACK, 64, 4096))
        for start in range(0, MILLION, 1000):
            block = made * 1000
            for index in range(1000):
                struct.pack_into("<i", block, index * len(made) + tid_at, start + index + 1)
            file.write(block)


def names_without_end(path: Path) -> None:
    """A table of mapped files that promises 2^60 rows, and one name of thirty megabytes."""
    body = struct.pack("<QQ", 1 << 60, TOP) + struct.pack("<QQQ", 0, TOP, TOP) + b"/" * (30 << 20)
    few = struct.pack("<QQ", 1, TOP) + struct.pack("<QQQ", 0, TOP, TOP) + b"/" * (30 << 20)
    _core(path, _honest().notes() + note(0x46494C45, body) + note(0x46494C45, few), [])


def segments_past_counting(path: Path) -> None:
    """PN_XNUM with four billion segments, whose table begins at the file's first byte."""
    section = bytes(44) + struct.pack("<I", 0xFFFFFFFF) + bytes(16)
    head = bytearray(header(phnum=0xFFFF, shnum=1, shoff=64))
    struct.pack_into("<Q", head, 32, 0)
    path.write_bytes(bytes(head) + section + bytes(1 << 20))


def a_terabyte_of_nothing(path: Path) -> None:
    """An honest head, and a memory of a terabyte that is one hole."""
    _core(path, _honest().notes(), [(1 << 20, STACK, TERABYTE, TERABYTE)])
    os.truncate(path, TERABYTE)


def endless_stack(path: Path) -> None:
    """Every word of a stack of 64 MB is a return address to one place: a recursion without an end."""
    made = _honest()
    made.memory.clear()
    made.load(CODE, bytes(4096), flags=5).load(STACK, struct.pack("<QQ", STACK + 64, CODE + 32) * (4 << 20))
    made.write(path)


def files_that_are_traps(path: Path) -> None:
    """Mapped files that would block or read for ever if somebody opened them."""
    made = _honest()
    for at, name in enumerate(("/dev/zero", "/proc/self/mem", "/dev/stdin", str(path.parent / "fifo"), "/")):
        made.file(CODE + (at + 1) * 4096, CODE + (at + 2) * 4096, 0, name)
        made.thread(5000 + at, rip=CODE + (at + 1) * 4096 + 8, rsp=STACK)
    os.mkfifo(path.parent / "fifo")
    made.write(path)


MAKERS: tuple[Callable[[Path], None], ...] = (
    *(sizes_that_lie, overlapping_segments, nested_notes, note_bomb, a_million_threads, names_without_end),
    *(segments_past_counting, a_terabyte_of_nothing, endless_stack, files_that_are_traps),
)


def made_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """(name, path) of each, one at a time: the next replaces the last."""
    for make in MAKERS:
        path = folder / "core"
        path.unlink(missing_ok=True)
        make(path)
        yield make.__name__, path
