"""Function names for code addresses, from a file's own symbol table: one pass, no tool, bounded.

Only a symbol whose size covers the address names it. The nearest symbol before an address would often be
another function's: a stripped library exports few.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

from analyzers.core.files import opened_regular, pread
from analyzers.errors import UserError
from analyzers.symbols.elffile import SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB, ElfFile, Section, read_elf

MAX_SYMBOLS = 1 << 21  # the native builds have 60,000; 48 MB of table
MAX_NAME = 8 << 10  # mangled; template names of the wheels reach 2 KB
SYMBOL = struct.Struct("<IBBHQQ")
BLOCK = 1 << 16  # symbols read at a time: 1.5 MB
STT_FUNC, STT_IFUNC = 2, 10


def function_names(paths: Iterable[Path], offsets: Iterable[int]) -> dict[int, str]:
    """Build-relative offset -> the symbol (as stored, mangled) whose function holds it.

    The first file that names an offset wins. Never raises.
    """
    wanted, named = sorted(set(offsets)), dict[int, str]()
    for path in paths:
        file = read_elf(path)
        for table in _tables(file):
            missing = [offset for offset in wanted if offset not in named]
            if file is not None and missing:
                named.update(_search(file, table, missing))
    return named


def _tables(file: ElfFile | None) -> list[Section]:
    rows = file.sections if file else ()
    return [row for kind in (SHT_SYMTAB, SHT_DYNSYM) for row in rows if row.type == kind]


def _search(file: ElfFile, table: Section, offsets: list[int]) -> dict[int, str]:
    strings = next((s for s in file.sections if s.number == table.link and s.type != SHT_NOBITS), None)
    if strings is None:
        return {}
    addresses = [offset + file.base for offset in offsets]
    try:
        with opened_regular(file.path) as descriptor:
            hits = _covering(descriptor, table, addresses)
            found = {at: _name(descriptor, strings, name) for at, name in hits.items()}
    except UserError:
        return {}
    return {at - file.base: name for at, name in found.items() if name}


def _covering(descriptor: int, table: Section, addresses: list[int]) -> dict[int, int]:
    """Address -> offset of the name of the smallest function around it."""
    best: dict[int, tuple[int, int]] = {}
    count = min(table.size // SYMBOL.size, MAX_SYMBOLS)
    for start in range(0, count, BLOCK):
        length = min(BLOCK, count - start) * SYMBOL.size
        data = pread(descriptor, length, table.offset + start * SYMBOL.size)
        for name, info, _, section, value, size in SYMBOL.iter_unpack(data[: len(data) // 24 * 24]):
            if not size or not section or info & 15 not in (STT_FUNC, STT_IFUNC):
                continue
            at = bisect_left(addresses, value)
            while at < len(addresses) and addresses[at] < value + size:
                if addresses[at] not in best or size < best[addresses[at]][0]:
                    best[addresses[at]] = (size, name)
                at += 1
    return {address: name for address, (_, name) in best.items()}


def _name(descriptor: int, strings: Section, at: int) -> str:
    room = min(MAX_NAME, strings.size - at)
    text = pread(descriptor, room, strings.offset + at).split(b"\0", 1)[0].decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in text)
