"""What of a mapped ELF file is needed to recognise it and its place: RELRO, dynamic section, notes."""

import os
from struct import Struct

from collector.capture.crash import limits
from collector.capture.crash.notes import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PHDR = Struct("<IIQQQQQQ")
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE, _PT_GNU_RELRO = 1, 2, 4, 0x6474E552
_WANTED = (_PT_DYNAMIC, _PT_NOTE, _PT_GNU_RELRO)
_MOST = 64  # program headers looked at; they have to fit into the first page, which takes 71


def program_rows(head: bytes) -> list[tuple[int, int, int, int]]:
    """(type, offset, address, memory size) of the program headers in a file's first page."""
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        return []
    at, count = int.from_bytes(head[32:40], "little"), int.from_bytes(head[56:58], "little")
    if not 0 < at < len(head):
        return []
    whole = min(count, _MOST, (len(head) - at) // _PHDR.size)
    rows = (_PHDR.unpack_from(head, at + number * _PHDR.size) for number in range(whole))
    return [(row[0], row[2], row[3], row[6]) for row in rows]


def _base(rows: list[tuple[int, int, int, int]], start: int) -> int:
    first = next((address for kind, offset, address, _ in rows if kind == _PT_LOAD and not offset), 0)
    return start - (first & -4096)


def ranges_of_module(head: bytes, start: int) -> list[tuple[int, int]]:
    """(address, size) of the wanted ranges of a module whose first page ``head`` is mapped at ``start``."""
    rows = program_rows(head)
    base = _base(rows, start)
    return [
        (base + address, min(size, limits.MODULE_RANGE))
        for kind, _, address, size in rows
        if kind in _WANTED and base + address >= 0
    ]


def mapped_build_id(read: "Callable[[int, int], bytes]", head: bytes, start: int) -> str | None:
    """The build-id of a module in memory; None when it has none."""
    rows = program_rows(head)
    base = _base(rows, start)
    blocks = (read(base + at, min(size, 4096)) for kind, _, at, size in rows if kind == _PT_NOTE)
    return next((found for block in blocks if (found := build_id(block))), None)


def file_build_id(descriptor: int) -> str | None:
    """The build-id of an open ELF file; None when it has none."""
    rows = program_rows(os.pread(descriptor, 4096, 0))
    blocks = (os.pread(descriptor, min(size, 4096), at) for kind, at, _, size in rows if kind == _PT_NOTE)
    return next((found for block in blocks if (found := build_id(block))), None)


def build_id(notes: bytes) -> str | None:
    """The build-id in the bytes of a PT_NOTE segment; None when there is none."""
    for note in parse(notes, 64):
        if note.owner == b"GNU" and note.type == 3 and 4 <= len(note.body) <= 64:
            return note.body.hex()
    return None
