"""What a symbol or program file says of itself: sections, segments, links to its debug files.

Such a file may be a stranger's: everything is read by bounded reads at checked offsets and nothing of it is
ever run, loaded or mapped. Layouts: System V ABI; .gnu_debuglink and .gnu_debugaltlink as gdb's manual
("Debugging Information in Separate Files") and dwz describe them.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from analyzers.core import elf
from analyzers.core.buildid import build_id_of_file
from analyzers.core.files import opened_regular, pread
from analyzers.errors import UserError

MAX_SECTIONS = 4096  # the wheels have 38
MAX_SEGMENTS = 256  # the wheels have 9
MAX_NAMES_BYTES = 1 << 20  # the section name table; usually under 1 KB
MAX_LINK_BYTES = 4096 + 64  # a file name and what follows it
MAX_FILE_BYTES = 4 << 30  # a CUDA build with full debug information stays below 3 GB
BLOCK = 1 << 20
SECTION = struct.Struct("<IIQQQQIIQQ")
SHT_NULL, SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 0, 2, 8, 11


@dataclass(frozen=True)
class Section:
    """``number`` is its place in the section header table; ``offset`` and ``size`` are of the file."""

    number: int
    name: str
    type: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Link:
    """A link to another file: by name and CRC32 (.gnu_debuglink), or by name and build-id (dwz)."""

    name: str
    crc: int | None = None
    build_id: str | None = None


@dataclass(frozen=True)
class ElfFile:
    """``base``: the virtual address that the file's first byte is linked at (0 for PIE and libraries)."""

    path: Path
    size: int
    build_id: str | None
    header: elf.Header
    sections: tuple[Section, ...] = ()
    base: int = 0

    def section(self, name: str) -> Section | None:
        """The section of this name that has bytes in the file."""
        return next((row for row in self.sections if row.name == name and row.type != SHT_NOBITS), None)


def read_elf(path: Path) -> ElfFile | None:
    """The file's own description; None when it is no little-endian ELF64 file, too large, or unreadable."""
    try:
        build_id = build_id_of_file(path)
        with opened_regular(path) as descriptor:
            data = pread(descriptor, elf.HEADER_SIZE, 0)
            size = os.fstat(descriptor).st_size
            if not elf.is_elf64_little(data) or size > MAX_FILE_BYTES:
                return None
            header = elf.parse_header(data)
            sections = _sections(descriptor, data, header, size)
            return ElfFile(path, size, build_id, header, sections, _base(descriptor, header))
    except UserError:  # gone, a folder, a pipe, or not for this user to read
        return None


def _sections(descriptor: int, head: bytes, header: elf.Header, size: int) -> tuple[Section, ...]:
    if header.section_entry != SECTION.size:
        return ()
    wanted = min(header.section_count, MAX_SECTIONS) * SECTION.size
    table = pread(descriptor, wanted, header.section_offset)
    rows = [SECTION.unpack_from(table, at) for at in range(0, len(table) - SECTION.size + 1, SECTION.size)]
    (names_at,) = struct.unpack_from("<H", head, 62)
    names = _names(descriptor, rows[names_at]) if names_at < len(rows) else b""
    made = (_section(number, row, names) for number, row in enumerate(rows))
    return tuple(s for s in made if s.type == SHT_NOBITS or s.offset + s.size <= size)


def _names(descriptor: int, row: tuple[int, ...]) -> bytes:
    return pread(descriptor, min(row[5], MAX_NAMES_BYTES), row[4])


def _section(number: int, row: tuple[int, ...], names: bytes) -> Section:
    name = names[row[0] : row[0] + 64].split(b"\0", 1)[0].decode("ascii", "replace")
    return Section(number, name, row[1], row[3], row[4], row[5], row[6])


def _base(descriptor: int, header: elf.Header) -> int:
    count = min(header.program_count, MAX_SEGMENTS)
    rows = elf.program_headers(pread(descriptor, count * elf.PROGRAM_HEADER_SIZE, header.program_offset))
    return next((row.address - row.offset for row in rows if row.type == elf.PT_LOAD), 0)


def is_whole(path: Path) -> bool:
    """The section headers, which linkers put at the end, are inside the file: it was not cut."""
    try:
        with opened_regular(path) as descriptor:
            data = pread(descriptor, elf.HEADER_SIZE, 0)
            size = os.fstat(descriptor).st_size
    except UserError:
        return False
    if not elf.is_elf64_little(data):
        return False
    header = elf.parse_header(data)
    return header.section_offset + header.section_count * header.section_entry <= size


def debug_link(file: ElfFile) -> Link | None:
    """The .gnu_debuglink of a stripped file: a plain file name and the CRC32 of the file it means."""
    data = _bytes_of(file, ".gnu_debuglink")
    name, found, _ = data.partition(b"\0")
    at = (len(name) + 4) & ~3
    if not found or not _plain_name(name) or len(data) < at + 4:
        return None
    return Link(os.fsdecode(name), crc=struct.unpack_from("<I", data, at)[0])


def alternate_link(file: ElfFile) -> Link | None:
    """The .gnu_debugaltlink that dwz leaves: a path and the build-id of the shared part."""
    name, found, rest = _bytes_of(file, ".gnu_debugaltlink").partition(b"\0")
    base = name.rsplit(b"/", 1)[-1]
    if not found or not _plain_name(base) or not 8 <= len(rest) <= 64:
        return None
    return Link(os.fsdecode(base), build_id=rest.hex())


def _plain_name(name: bytes) -> bool:
    """A name without a folder: one with a folder could point anywhere on this machine."""
    return bool(name) and b"/" not in name and name not in (b".", b"..")


def _bytes_of(file: ElfFile, name: str) -> bytes:
    row = file.section(name)
    if row is None or row.size > MAX_LINK_BYTES:
        return b""
    with _opened(file) as descriptor:
        return pread(descriptor, row.size, row.offset) if descriptor >= 0 else b""


@contextmanager
def _opened(file: ElfFile) -> Iterator[int]:
    try:
        context = opened_regular(file.path)
        descriptor = context.__enter__()
    except UserError:
        yield -1
        return
    try:
        yield descriptor
    finally:
        context.__exit__(None, None, None)


def crc_of(path: Path) -> int | None:
    """CRC32 of the whole file, as .gnu_debuglink means it; None when unreadable or over the bound."""
    try:
        with opened_regular(path) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > MAX_FILE_BYTES:
                return None
            crc = 0
            for at in range(0, size, BLOCK):
                crc = zlib.crc32(pread(descriptor, BLOCK, at), crc)
            return crc
    except UserError:
        return None
