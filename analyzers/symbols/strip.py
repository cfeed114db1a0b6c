"""A copy of a program without its debug information, kept by build-id: what unwinding and names need.

The copy keeps every byte at its place and leaves holes where the debug sections were, whose headers become
unused ones. So no tool has to parse a stranger's file, and the copy cannot differ in anything else.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

from analyzers.core.files import opened_regular, pread
from analyzers.errors import UserError
from analyzers.symbols.cache import STRIPPED, Cache
from analyzers.symbols.elffile import SECTION, SHT_NOBITS, SHT_NULL, ElfFile, Section, read_elf

DEBUG_SECTIONS = (".debug_", ".zdebug_", ".gdb_index", ".debug_names")
BLOCK = 1 << 20


def stripped_copy(path: Path, cache: Cache) -> Path | None:
    """The cached copy of the build at ``path``, made when it is not there; None when it cannot be made.

    The first time costs a copy of what is not debug information (20 MB of a 230 MB server).
    """
    file = read_elf(path)
    if file is None or file.build_id is None:
        return None
    kept = cache.get(file.build_id, STRIPPED)
    if kept is not None:
        return kept
    try:
        return cache.put(file.build_id, STRIPPED, lambda out: _copy(file, out))
    except UserError:
        return None


def _copy(file: ElfFile, out: BinaryIO) -> None:
    gone = _debug_sections(file)
    with opened_regular(file.path) as descriptor:
        for start, end in _kept(file.size, gone):
            _copy_range(descriptor, out, start, end)
        for section in gone:
            at = file.header.section_offset + section.number * SECTION.size
            row = pread(descriptor, SECTION.size, at)
            if len(row) == SECTION.size:
                os.pwrite(out.fileno(), row[:4] + struct.pack("<I", SHT_NULL) + row[8:], at)
    out.truncate(file.size)


def _debug_sections(file: ElfFile) -> list[Section]:
    rows = (row for row in file.sections if row.type not in (SHT_NOBITS, SHT_NULL) and not row.address)
    return [row for row in rows if row.name.startswith(DEBUG_SECTIONS)]


def _kept(size: int, gone: list[Section]) -> list[tuple[int, int]]:
    """The parts of the file outside the removed sections."""
    parts, at = [], 0
    for section in sorted(gone, key=lambda row: row.offset):
        if section.offset > at:
            parts.append((at, section.offset))
        at = max(at, section.offset + section.size)
    return [*parts, (at, size)] if at < size else parts


def _copy_range(descriptor: int, out: BinaryIO, start: int, end: int) -> None:
    for at in range(start, end, BLOCK):
        data = pread(descriptor, min(BLOCK, end - at), at)
        if data.count(0) < len(data):
            os.pwrite(out.fileno(), data, at)
