"""A small view of a core with one thread's registers moved, in memory only: the original is never changed.

eu-stack needs the notes, the stack from the new stack pointer on, and what tells it which object is mapped
where (ELF header pages, dynamic sections, the linker's lists): a few MB of a core of any size. They are
written to an anonymous memory file that the tool opens through /proc/self/fd.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from analyzers.core.model import Core

ELF_HEADER, PROGRAM_HEADER = 64, struct.Struct("<IIQQQQQQ")
PT_LOAD, PT_NOTE = 1, 4
PF_W = 2
NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE = 1, 3, 6, 0x46494C45
KEPT_NOTES = (NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE)
REGISTER_INDEX = {"rbp": 4, "rip": 16, "rsp": 19}  # user_regs_struct of x86-64
# Writable data and RELRO of shared objects are below this; heaps, stacks and weights are above.
SMALL_SEGMENT = 1 << 20
# A core that gdb saved has no ELF header pages: objects are found by the linker's list, which for loaded
# extensions stands at the beginning of the heap (the lowest large writable segment; 2 MB when hosted).
LIST_SEGMENT = 4 << 20
VIEW_BYTES = 32 << 20  # of copied memory: measured 5 MB on hosted servers
NOTE_BYTES = 64 << 20  # 20,000 threads; a header that promises more is not believed
HEADER_COUNT = 0xFFFF
PAGE = 4096


@dataclass(frozen=True)
class _Header:
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    size: int
    align: int

    def placed(self, offset: int, address: int, file_size: int) -> bytes:
        size = max(file_size, self.address + self.size - address)
        return PROGRAM_HEADER.pack(
            self.kind, self.flags, offset, address, self.physical, file_size, size, self.align
        )


def reduced_core(core: Core, registers: dict[str, int], stack_from: int) -> int | None:
    """A memory file holding the view, as an open descriptor, or None where the core cannot be read so.

    ``registers`` (rip, rsp, rbp) replace those of the crashed thread, which becomes the only one; its
    stack segment is copied from ``stack_from`` on. The caller closes the descriptor.
    """
    try:
        with core.path.open("rb") as file:
            elf = file.read(ELF_HEADER)
            headers = _headers(file.fileno(), elf)
            notes = _notes(file.fileno(), core, headers, registers)
            if not headers or not notes:
                return None
            return _written(file.fileno(), elf, headers, notes, stack_from, _limits(core, headers))
    except (OSError, struct.error):
        return None


def _headers(fd: int, elf: bytes) -> list[_Header]:
    if len(elf) < ELF_HEADER or elf[:6] != b"\x7fELF\x02\x01":
        return []
    (where,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    if size != PROGRAM_HEADER.size or count == HEADER_COUNT:
        return []
    table = os.pread(fd, size * count, where)
    return [_Header(*PROGRAM_HEADER.unpack_from(table, size * i)) for i in range(len(table) // size)]


def _notes(fd: int, core: Core, headers: list[_Header], registers: dict[str, int]) -> bytes:
    """The kept notes: one thread's status with moved registers, and what describes the process."""
    kept = bytearray()
    wanted = core.threads[0].registers_offset if core.threads else -1
    for header in headers:
        if header.kind == PT_NOTE and header.file_size <= NOTE_BYTES:
            blob = os.pread(fd, header.file_size, header.offset)
            for kind, start, end in _each_note(blob):
                inside = start <= wanted - header.offset < end
                if kind in KEPT_NOTES and (kind != NT_PRSTATUS or inside):
                    note = bytearray(blob[start:end])
                    if inside:
                        _move(note, wanted - header.offset - start, registers)
                    kept += note
    return bytes(kept)


def _each_note(blob: bytes) -> Iterator[tuple[int, int, int]]:
    at = 0
    while at + 12 <= len(blob):
        name, size, kind = struct.unpack_from("<III", blob, at)
        body = at + 12 + (name + 3 & ~3)
        end = body + (size + 3 & ~3)
        if end > len(blob):
            return
        yield kind, at, end
        at = end


def _move(note: bytearray, block: int, registers: dict[str, int]) -> None:
    for name, value in registers.items():
        struct.pack_into("<Q", note, block + 8 * REGISTER_INDEX[name], value)


def _limits(core: Core, headers: list[_Header]) -> dict[int, int]:
    """How much of which segment (by address) is kept beyond the small ones; nothing for a kernel's core."""
    known = {segment.address for segment in core.segments}
    if not any(row.file_offset == 0 and row.start not in known for row in core.mapped):
        return {}
    large = [h for h in headers if h.kind == PT_LOAD and h.flags & PF_W and h.file_size > SMALL_SEGMENT]
    heap = min((header.address for header in large), default=None)
    return {h.address: LIST_SEGMENT for h in large if h.file_size <= LIST_SEGMENT or h.address == heap}


def _written(
    fd: int, elf: bytes, headers: list[_Header], notes: bytes, stack_from: int, limits: dict[int, int]
) -> int:
    loads = [header for header in headers if header.kind == PT_LOAD]
    head = bytearray(elf)
    struct.pack_into("<Q", head, 32, ELF_HEADER)
    struct.pack_into("<Q", head, 40, 0)
    struct.pack_into("<HHHH", head, 56, len(loads) + 1, 0, 0, 0)
    notes_at = ELF_HEADER + PROGRAM_HEADER.size * (len(loads) + 1)
    place = notes_at + len(notes) + PAGE - 1 & -PAGE
    table = [PROGRAM_HEADER.pack(PT_NOTE, 0, notes_at, 0, 0, len(notes), 0, 4)]
    copies = []
    for header in loads:
        address, length = _kept_part(header, stack_from, VIEW_BYTES - place, limits.get(header.address, 0))
        table.append(header.placed(place, address, length))
        copies.append((header.offset + address - header.address, place, length))
        place += length + PAGE - 1 & -PAGE
    out = os.memfd_create("stack-view", os.MFD_CLOEXEC)
    os.pwrite(out, bytes(head) + b"".join(table) + notes, 0)
    for source, target, length in copies:
        os.pwrite(out, os.pread(fd, length, source), target)
    return out


def _kept_part(header: _Header, stack_from: int, room: int, limit: int) -> tuple[int, int]:
    """(address, bytes) of the part of a segment that goes into the view; bytes may be 0."""
    if header.address <= stack_from < header.address + header.file_size:
        start = max(header.address, stack_from & -PAGE)
        return start, min(header.address + header.file_size - start, max(0, room))
    wanted = header.file_size if header.file_size <= SMALL_SEGMENT else min(header.file_size, limit)
    return header.address, wanted if wanted <= room else 0
