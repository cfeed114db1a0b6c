"""A minimal core made from a full one, as the crash path makes it from a dying process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from analyzers.core.model import Core
from analyzers.core.notes import read_core
from collector.capture.crash import limits, notes
from collector.capture.crash.corefile import demand_sound, write_core
from collector.capture.crash.maps import Maps
from collector.capture.crash.memory import Kept, keep

_AT_RANDOM, _AT_EXECFN, _AT_VDSO = 25, 31, 33
_MOST_ARGUMENTS = 32 << 20
_PROGRAM_HEADERS = 64
_ROW = 56


def slim(source: Path, descriptor: int) -> Kept:
    """Write a minimal core of the core at ``source`` into an empty file. Gives what was kept; not synced.

    Arguments and environment are blanked. Raises UserError for what is no core, ValueError when it holds no
    thread or its segments lie as no kernel lays them, OSError for the disk.
    """
    core = read_core(source)
    demand_sound(sorted((row.address, row.size) for row in core.segments))
    rows = notes.to_keep(notes.parse(note_block(source)))
    threads = notes.threads(rows)
    if not threads:
        raise ValueError("the core holds no thread")
    auxv = notes.auxv(notes.body_of(rows, notes.AUXV))
    with source.open("rb") as file:
        number = file.fileno()

        def read(address: int, size: int) -> bytes:
            return _read(number, core, address, size)

        kept = keep(read, Maps(_maps(core, auxv)), threads, auxv, arguments(auxv))
    write_core(descriptor, b"".join(note.packed() for note in rows), kept.segments)
    return kept


def note_block(source: Path) -> bytes:
    """The bytes of the first note segment, as far as they are there."""
    with source.open("rb") as file:
        head = file.read(64 + _PROGRAM_HEADERS * _ROW)
        for at in range(64, len(head) - _ROW + 1, _ROW):
            if int.from_bytes(head[at : at + 4], "little") == 4:  # PT_NOTE
                file.seek(int.from_bytes(head[at + 8 : at + 16], "little"))
                return file.read(min(int.from_bytes(head[at + 32 : at + 40], "little"), limits.NOTES_BYTES))
    return b""


def arguments(auxv: dict[int, int]) -> tuple[int, int]:
    """Where the arguments and the environment stood: between the random bytes and the program's name, at the
    end of the main thread's stack (create_elf_tables, fs/binfmt_elf.c)."""
    low, high = auxv.get(_AT_RANDOM, 0) + 16, auxv.get(_AT_EXECFN, 0)
    return (low, high) if 16 < low < high <= low + _MOST_ARGUMENTS else (0, 0)


def _read(descriptor: int, core: Core, address: int, size: int) -> bytes:
    for row in core.segments:
        if row.address <= address < row.address + row.file_size:
            room = row.address + row.file_size - address
            return os.pread(descriptor, min(size, room), row.file_offset + address - row.address)
    return b""


def _maps(core: Core, auxv: dict[int, int]) -> bytes:
    """The core's segments and its NT_FILE as lines of /proc/PID/maps."""
    return b"\n".join(_lines(core, auxv.get(_AT_VDSO, 0)))


def _lines(core: Core, vdso: int) -> Iterator[bytes]:
    names = {row.start: row for row in core.mapped}
    for row in sorted(core.segments, key=lambda row: row.address):
        named = names.get(row.address)
        path = named.path if named is not None else "[vdso]" if row.address == vdso else ""
        mode = f"r{'w' if row.writable else '-'}{'x' if row.executable else '-'}p"
        offset, inode = (named.file_offset, 1) if named is not None else (0, 0)
        line = f"{row.address:x}-{row.address + row.size:x} {mode} {offset:08x} 00:00 {inode} {path}"
        yield line.replace("\n", "?").encode("utf-8", "surrogateescape")
