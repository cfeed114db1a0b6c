"""Searches a binary's symbol names for given ones: the marks and signs of the catalogue.

Only the string tables (.dynstr and .strtab) are read, in windows, so that a binary of 100 MB costs a few
milliseconds. They are not mapped: a file that shrinks under a mapping kills the reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from analyzers.core import elf
from analyzers.core.files import opened_regular, pread

MAX_TABLE_BYTES = 64 << 20  # all string tables together; the wheels have 4 MB
MAX_TABLES = 8  # .dynstr, .strtab, .shstrtab and room
WINDOW = 4 << 20  # bytes read at a time
MAX_SECTIONS = 4096  # section headers; the wheels have 38


class Name(Protocol):
    """``symbol`` is a symbol's whole name, or the beginning of it when ``prefix`` is set."""

    @property
    def id(self) -> str: ...
    @property
    def symbol(self) -> str: ...
    @property
    def prefix(self) -> bool: ...


def find_names(path: Path, names: Iterable[Name]) -> tuple[str, ...]:
    """Ids of the ``names`` that the ELF file at ``path`` has, in their order; none when it is stripped.

    A linker may store a name as the tail of a longer one: such a name is not found, so that absence tells
    nothing. Raises UserError when the file cannot be opened.
    """
    wanted = tuple(names)
    with opened_regular(path) as descriptor:
        missing = list(wanted)
        for window in _windows(descriptor, _overlap(wanted)):
            missing = [name for name in missing if _needle(name) not in window]
    return tuple(name.id for name in wanted if name not in missing)


def _needle(name: Name) -> bytes:
    """In a string table every name follows the NUL that ends the one before, and ends with its own."""
    return b"\0" + name.symbol.encode() + (b"" if name.prefix else b"\0")


def _overlap(names: Sequence[Name]) -> int:
    return max((len(_needle(name)) for name in names), default=0)


def _windows(descriptor: int, overlap: int) -> Iterator[bytes]:
    """The string tables in pieces, each with the end of the one before."""
    for start, end in _string_tables(descriptor):
        for at in range(start, end, WINDOW):
            yield pread(descriptor, min(WINDOW + overlap, end - at), at)


def _string_tables(descriptor: int) -> list[tuple[int, int]]:
    """(start, end) of every string table inside the file."""
    size = os.fstat(descriptor).st_size
    data = pread(descriptor, elf.HEADER_SIZE, 0)
    if not elf.is_elf64_little(data):
        return []
    header = elf.parse_header(data)
    length = min(header.section_count, MAX_SECTIONS) * elf.SECTION_HEADER_SIZE
    rows = elf.section_headers(pread(descriptor, length, header.section_offset))
    tables = [row for row in rows if row.type == elf.SHT_STRTAB][:MAX_TABLES]
    spans, left = [], MAX_TABLE_BYTES
    for row in tables:
        length = min(row.size, left)
        spans.append((row.offset, min(row.offset + length, size)))
        left -= length
    return spans
