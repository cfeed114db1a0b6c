"""Marks: symbol names in a binary that tell affected builds of a defect from fixed ones.

Only the string tables (.dynstr and .strtab) are read, in windows, so that a binary of 100 MB costs a few
milliseconds. They are not mapped: a file that shrinks under a mapping kills the reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.facts import MarkFact
from analyzers.core import elf
from analyzers.core.buildid import build_id_of_file
from analyzers.core.files import opened_regular, pread

MAX_TABLE_BYTES = 64 << 20  # one string table; the wheels have 4 MB
MAX_TABLES = 8  # .dynstr, .strtab, .shstrtab and room
WINDOW = 4 << 20  # bytes read at a time
MAX_SECTIONS = 4096  # section headers; the wheels have 38


@dataclass(frozen=True)
class Mark:
    """``needle`` is the beginning of a mangled symbol name; ``affected`` is what finding it says."""

    id: str
    defect: str
    needle: str
    affected: bool


# nm on b9713, b10229, b10809, b11063 (affected; arguments after the vocabulary differ) and b11549 (fixed).
D1_MARKS = (
    Mark(
        "d1-count-tokens-takes-vocab", "D1", "_ZN13server_routes19handle_count_tokensEPK11llama_vocab", True
    ),
    Mark(
        "d1-count-tokens-takes-request",
        "D1",
        "_ZN13server_routes19handle_count_tokensERK15server_http_req18task_response_type",
        False,
    ),
)


def find_marks(path: Path, marks: Sequence[Mark] = D1_MARKS) -> tuple[MarkFact, ...]:
    """One fact for each mark found in the symbol names of the ELF file at ``path``; empty when stripped.

    Raises UserError when the file cannot be opened.
    """
    with opened_regular(path) as descriptor:
        missing = list(marks)
        for window in _windows(descriptor, _overlap(marks)):
            missing = [mark for mark in missing if _needle(mark) not in window]
    found = [mark for mark in marks if mark not in missing]
    build_id = build_id_of_file(path) if found else None
    return tuple(MarkFact(mark.id, mark.defect, mark.affected, build_id=build_id) for mark in found)


def _needle(mark: Mark) -> bytes:
    """In a string table every name follows the NUL that ends the one before."""
    return b"\0" + mark.needle.encode()


def _overlap(marks: Sequence[Mark]) -> int:
    return max((len(_needle(mark)) for mark in marks), default=0)


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
    return [(row.offset, min(row.offset + min(row.size, MAX_TABLE_BYTES), size)) for row in tables]
