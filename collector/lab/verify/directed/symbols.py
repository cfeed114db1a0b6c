"""Functions of a server's ELF files, and copies of them that a debugger reads in a blink.

gdb needs 7 s for the wheel's debug information and 14 s for a native build's (two busy cores). Names and
unwind tables are all that is wanted here: a copy without the debug sections is made in 0.03 s, takes 30 of
106 MB on disk (the rest are holes), and gdb reads it in 0.4 s.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from analyzers.core import elf
from analyzers.core.files import opened_regular, pread

SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 2, 8, 11
FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
# Parts the compiler split off: they are jumped to in the middle of the function, not called.
CLONES = (b".cold", b".part.", b".isra.", b".constprop.", b".lto_priv.")
DEBUG = (b".debug", b".zdebug", b".gnu_debug", b".gdb_index")
TABLE_LIMIT = 256 << 20  # symbols or names of one file; the wheels have 4 MB of names
SECTIONS_LIMIT = 4096
COPY_CHUNK = 1 << 20


@dataclass(frozen=True)
class Section:
    name: int
    type: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Function:
    """``address`` is the link-time one: add the load bias."""

    name: str
    address: int


@dataclass(frozen=True)
class Binary:
    """One mapped file of the server. ``functions``: by the wanted prefix they were found for."""

    path: Path
    first_address: int
    functions: dict[str, tuple[Function, ...]]


def read_binary(path: Path, prefixes: Iterable[str]) -> Binary | None:
    """What ``path`` defines of functions whose mangled names begin with ``prefixes``; None for other files.

    Raises UserError when the file cannot be opened.
    """
    with opened_regular(path) as file:
        head = pread(file, elf.HEADER_SIZE, 0)
        if not elf.is_elf64_little(head):
            return None
        header = elf.parse_header(head)
        length = header.program_count * elf.PROGRAM_HEADER_SIZE
        loads = list(elf.program_headers(pread(file, length, header.program_offset)))
        first = min((row.address for row in loads if row.type == elf.PT_LOAD), default=0)
        sections = _sections(file, header)
        found: dict[str, dict[str, Function]] = {}
        for table in sections:
            if table.type in (SHT_SYMTAB, SHT_DYNSYM) and table.link < len(sections):
                for prefix, function in _functions(file, table, sections[table.link], list(prefixes)):
                    found.setdefault(prefix, {})[function.name] = function
    return Binary(path, first & ~0xFFF, {prefix: tuple(each.values()) for prefix, each in found.items()})


def _sections(file: int, header: elf.Header) -> list[Section]:
    count = min(header.section_count, SECTIONS_LIMIT)
    data = pread(file, count * SECTION.size, header.section_offset)
    whole = len(data) - len(data) % SECTION.size
    rows = SECTION.iter_unpack(data[:whole])
    return [Section(row[0], row[1], row[4], row[5], row[6]) for row in rows]


def _functions(
    file: int, table: Section, strings: Section, prefixes: list[str]
) -> Iterator[tuple[str, Function]]:
    """First the names are searched, then the few symbols that have them: 200,000 names stay unread."""
    names = pread(file, min(strings.size, TABLE_LIMIT), strings.offset)
    at = {place: prefix for prefix in prefixes for place in _places(names, prefix.encode())}
    data = pread(file, min(table.size, TABLE_LIMIT), table.offset) if at else b""
    whole = len(data) - len(data) % SYMBOL.size
    for name, info, _, section, address, _ in SYMBOL.iter_unpack(data[:whole]):
        if name in at and section and info & 0xF in FUNCTION_TYPES:
            text = names[name : names.find(b"\0", name)]
            yield at[name], Function(text.decode("utf-8", "replace"), address)


def _places(names: bytes, prefix: bytes) -> Iterator[int]:
    at = names.find(b"\0" + prefix)
    while at >= 0:
        name = names[at + 1 : names.find(b"\0", at + 1)]
        if not any(clone in name for clone in CLONES):
            yield at + 1
        at = names.find(b"\0" + prefix, at + 1)


def slim_copy(source: Path, target: Path) -> None:
    """Write ``source`` without its debug sections: they become holes that their headers call empty.

    Raises OSError when there is no room, UserError when ``source`` cannot be read.
    """
    with opened_regular(source) as file, target.open("wb") as copy:
        header = elf.parse_header(pread(file, elf.HEADER_SIZE, 0))
        table, skipped = _without_debug(file, header)
        size, at = os.fstat(file).st_size, 0
        for start, end in sorted([*skipped, (size, size)]):
            copy.seek(at)
            while at < start and (chunk := pread(file, min(COPY_CHUNK, start - at), at)):
                copy.write(chunk)
                at += len(chunk)
            at = max(at, end)
        copy.truncate(size)
        copy.seek(header.section_offset)
        copy.write(table)


def _without_debug(file: int, header: elf.Header) -> tuple[bytes, list[tuple[int, int]]]:
    """The section headers with the debug sections made empty, and the byte ranges that they took."""
    sections = _sections(file, header)
    table = bytearray(pread(file, len(sections) * SECTION.size, header.section_offset))
    strings = _name_section(file, sections)
    names = pread(file, min(strings.size, TABLE_LIMIT), strings.offset) if strings else b""
    skipped = []
    for number, section in enumerate(sections):
        if names[section.name :].startswith(DEBUG) and section.type != SHT_NOBITS:
            struct.pack_into("<I", table, number * SECTION.size + 4, SHT_NOBITS)
            skipped.append((section.offset, section.offset + section.size))
    return bytes(table), skipped


def _name_section(file: int, sections: list[Section]) -> Section | None:
    """The section of section names: e_shstrndx, the last half-word of the ELF header."""
    (index,) = struct.unpack_from("<H", pread(file, elf.HEADER_SIZE, 0), 62)
    return sections[index] if index < len(sections) else None
