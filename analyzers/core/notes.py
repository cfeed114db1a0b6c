"""``read_core``: what the ELF header, the program headers and the PT_NOTE segment of a core say.

Only these are read, so a core of gigabytes costs as much as a small one. Everything is bounded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from analyzers.core import elf
from analyzers.core.buildid import build_ids_in_core
from analyzers.core.files import opened_regular, plain, pread
from analyzers.core.model import Core, Segment
from analyzers.core.records import Records, read_records
from analyzers.errors import UserError

MAX_SEGMENTS = 1 << 17  # twice the kernel's default vm.max_map_count
MAX_NOTE_BYTES = 64 << 20  # 4,096 threads with AVX-512 and AMX state (11 KB each) fill 45 MB
MAX_NOTE_SEGMENTS = 16  # the kernel and gdb write one


@dataclass(frozen=True)
class _Layout:
    """Program headers sorted by what they are for."""

    loads: tuple[elf.ProgramHeader, ...]
    notes: tuple[elf.ProgramHeader, ...]
    cut: bool
    limits: tuple[str, ...]


def read_core(path: Path, shown: str | None = None) -> Core:
    """The core at ``path`` as far as its headers and notes go, the crashed thread first.

    A core whose headers promise more than the file holds has ``cut`` set and what is there.
    ``shown`` is the name for error lines (an unpacked core lives under a temporary name).
    Raises UserError: empty, a directory, unreadable, not a core, of another architecture, an executable.
    """
    where = plain(shown if shown is not None else str(path))
    with opened_regular(path, where) as descriptor:
        size = os.fstat(descriptor).st_size
        header = _core_header(pread(descriptor, elf.HEADER_SIZE, 0), size, where)
        layout = _layout(descriptor, header, size)
        records, missing, limits = _records(descriptor, layout.notes)
    core = _assembled(path, size, layout, records)
    core = replace(core, cut=layout.cut or missing, limits=layout.limits + limits + records.limits)
    return replace(core, build_ids=build_ids_in_core(core))


def _core_header(data: bytes, size: int, where: str) -> elf.Header:
    if size == 0:
        raise UserError(
            "empty file", where=where, remedy="collect the core again; the disk may have been full"
        )
    if data[:4] != elf.MAGIC:
        raise UserError("not a core", where=where, remedy="give an ELF core file")
    if len(data) < elf.HEADER_SIZE:
        raise UserError("cut inside its first 64 bytes", where=where, remedy="collect the core again")
    if not elf.is_elf64_little(data):
        raise _foreign("32-bit" if data[4] == 1 else "big-endian", where)
    header = elf.parse_header(data)
    _demand_core(header, where)
    return header


def _demand_core(header: elf.Header, where: str) -> None:
    if header.type in elf.TYPE_EXECUTABLES:
        raise UserError(
            "an executable, not a core", where=where, remedy="give the core as input and this file as --exe"
        )
    if header.type != elf.TYPE_CORE:
        raise UserError("an ELF file, not a core", where=where, remedy="give an ELF core file")
    if header.machine != elf.MACHINE_X86_64:
        raise _foreign(header.machine_name, where)
    if header.program_entry != elf.PROGRAM_HEADER_SIZE:
        raise UserError("a damaged core header", where=where, remedy="collect the core again")


def _foreign(architecture: str, where: str) -> UserError:
    return UserError(
        f"a core of another architecture ({architecture})",
        where=where,
        remedy="only x86-64 cores can be read; give the server's log instead",
    )


def _layout(descriptor: int, header: elf.Header, size: int) -> _Layout:
    promised = elf.program_count(descriptor, header)
    count = min(promised, MAX_SEGMENTS)
    data = pread(descriptor, count * elf.PROGRAM_HEADER_SIZE, header.program_offset)
    rows = list(elf.program_headers(data))
    unknown_count = header.program_count == elf.PN_XNUM and promised == 0
    past_end = any(row.file_size and row.offset + row.file_size > size for row in rows)
    loads = tuple(row for row in rows if row.type == elf.PT_LOAD)
    strange = elf.unsound((row.address, row.memory_size) for row in loads)
    return _Layout(
        loads=loads,
        notes=tuple(row for row in rows if row.type == elf.PT_NOTE),
        cut=unknown_count or len(rows) < count or past_end,
        limits=_limits(count, promised, strange),
    )


def _limits(count: int, promised: int, strange: str | None) -> tuple[str, ...]:
    fewer = (f"only {count} of {promised} segments were read",) if count < promised else ()
    return (*fewer, *((f"no kernel wrote it so: {strange}",) if strange is not None else ()))


def _records(descriptor: int, rows: tuple[elf.ProgramHeader, ...]) -> tuple[Records, bool, tuple[str, ...]]:
    """The note records, whether notes are missing from the file, and the bounds that were hit."""
    records, missing, room = Records(), not rows, MAX_NOTE_BYTES
    limits: tuple[str, ...] = ()
    if len(rows) > MAX_NOTE_SEGMENTS:
        limits = (f"only {MAX_NOTE_SEGMENTS} of {len(rows)} note segments were read",)
    for row in rows[:MAX_NOTE_SEGMENTS]:
        wanted = min(row.file_size, room)
        if wanted < row.file_size:
            limits += (f"only {wanted} of {row.file_size} bytes of notes were read",)
        block = pread(descriptor, wanted, row.offset)
        missing = missing or len(block) < wanted
        room -= len(block)
        read_records(block, row.offset, records)
    return records, missing, limits


def _assembled(path: Path, size: int, layout: _Layout, records: Records) -> Core:
    signal, code, address = records.fault()
    return Core(
        path=path,
        signal=signal,
        si_code=code,
        fault_address=address,
        pid=records.pid,
        parent=records.parent,
        program=records.program,
        arguments=records.arguments,
        threads=tuple(records.threads.values()),
        mapped=records.mapped,
        segments=tuple(_segment(row, size) for row in layout.loads),
        file_size=size,
        auxv=records.auxv,
    )


def _segment(row: elf.ProgramHeader, size: int) -> Segment:
    held = min(row.file_size, row.memory_size, max(0, size - row.offset))
    return Segment(
        address=row.address,
        size=row.memory_size,
        file_offset=row.offset,
        file_size=held,
        executable=bool(row.flags & elf.PF_EXECUTE),
        writable=bool(row.flags & elf.PF_WRITE),
    )
