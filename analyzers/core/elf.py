"""The few ELF64 structures a core reader needs: header, program and section headers, notes.

Layouts: System V ABI. ``Elf64_Ehdr`` has 64 bytes, ``Elf64_Phdr`` 56, ``Elf64_Shdr`` 64, ``Elf64_Nhdr`` 12.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from analyzers.core.files import pread

MAGIC = b"\x7fELF"
HEADER_SIZE = 64
PROGRAM_HEADER_SIZE = 56
SECTION_HEADER_SIZE = 64
NOTE_HEADER = struct.Struct("<III")
PAGE = 4096
ADDRESS_SPACE = 1 << 64
CLASS_64 = 2
LITTLE_ENDIAN = 1
TYPE_EXECUTABLES = frozenset({2, 3})  # ET_EXEC, ET_DYN
TYPE_CORE = 4
MACHINE_X86_64 = 62
PT_LOAD = 1
PT_NOTE = 4
PF_EXECUTE = 1
PF_WRITE = 2
SHT_STRTAB = 3
SHT_NOTE = 7
PN_XNUM = 0xFFFF  # the real number of program headers stands in sh_info of section 0
MACHINES = {
    3: "i386",
    20: "powerpc",
    21: "powerpc64",
    22: "s390",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv",
    258: "loongarch",
}


@dataclass(frozen=True)
class Header:
    type: int
    machine: int
    program_offset: int
    program_count: int
    program_entry: int
    section_offset: int
    section_count: int
    section_entry: int

    @property
    def machine_name(self) -> str:
        return MACHINES.get(self.machine, f"machine {self.machine}")


@dataclass(frozen=True)
class ProgramHeader:
    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int


@dataclass(frozen=True)
class SectionHeader:
    type: int
    offset: int
    size: int


@dataclass(frozen=True)
class Note:
    """One note; ``offset`` is the position of ``body`` relative to the block it was parsed from."""

    owner: bytes
    type: int
    body: bytes
    offset: int


def is_elf64_little(data: bytes) -> bool:
    """Whether ``data`` starts a little-endian ELF64 file and holds its whole header."""
    return len(data) >= HEADER_SIZE and data[:6] == MAGIC + bytes((CLASS_64, LITTLE_ENDIAN))


def parse_header(data: bytes) -> Header:
    """The header of a little-endian ELF64 file; ``data`` holds at least its first 64 bytes."""
    kind, machine = struct.unpack_from("<HH", data, 16)
    program_offset, section_offset = struct.unpack_from("<QQ", data, 32)
    program_entry, program_count, section_entry, section_count = struct.unpack_from("<HHHH", data, 54)
    return Header(
        kind,
        machine,
        program_offset,
        program_count,
        program_entry,
        section_offset,
        section_count,
        section_entry,
    )


def program_count(descriptor: int, header: Header) -> int:
    """Number of program headers, following PN_XNUM; 0 when the section that would say it is missing."""
    if header.program_count != PN_XNUM:
        return header.program_count
    section = pread(descriptor, SECTION_HEADER_SIZE, header.section_offset)
    if not header.section_offset or len(section) < SECTION_HEADER_SIZE:
        return 0
    return int(struct.unpack_from("<I", section, 44)[0])


def program_headers(data: bytes) -> Iterator[ProgramHeader]:
    """The whole program headers in ``data``; a cut last one is left out."""
    whole = len(data) - len(data) % PROGRAM_HEADER_SIZE
    for row in struct.iter_unpack("<IIQQQQQQ", data[:whole]):
        kind, flags, offset, address, _, file_size, memory_size, _ = row
        yield ProgramHeader(kind, flags, offset, address, file_size, memory_size)


def unsound(ranges: Iterable[tuple[int, int]]) -> str | None:
    """What no kernel writes among a core's memory ranges, (address, size) in any order: one that overlaps
    another, leaves the address space or begins on no page boundary. None when there is none."""
    last = 0
    for address, size in sorted(ranges):
        if address % PAGE:
            return f"the segment at {address:#x} begins on no page boundary"
        if address < last:
            return f"the segment at {address:#x} overlaps another"
        last = address + size
        if last > ADDRESS_SPACE:
            return f"the segment at {address:#x} leaves the address space"
    return None


def section_headers(data: bytes) -> Iterator[SectionHeader]:
    """The whole section headers in ``data``."""
    whole = len(data) - len(data) % SECTION_HEADER_SIZE
    for row in struct.iter_unpack("<IIQQQQIIQQ", data[:whole]):
        yield SectionHeader(row[1], row[4], row[5])


def notes(block: bytes) -> Iterator[Note]:
    """The notes in ``block``. Stops at the first one whose sizes reach past the end."""
    position = 0
    while position + NOTE_HEADER.size <= len(block):
        name_size, body_size, kind = NOTE_HEADER.unpack_from(block, position)
        name_at = position + NOTE_HEADER.size
        body_at = name_at + _aligned(name_size)
        if body_at + body_size > len(block):
            return
        owner = block[name_at : name_at + name_size].rstrip(b"\0")
        yield Note(owner, kind, block[body_at : body_at + body_size], body_at)
        position = body_at + _aligned(body_size)


def _aligned(size: int) -> int:
    return (size + 3) & ~3
