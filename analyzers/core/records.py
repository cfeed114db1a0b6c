"""The note records of an x86-64 Linux core.

Layouts: ``struct elf_prstatus`` (336 bytes: signal at 12, pid at 32, 27 registers at 112), ``siginfo_t``
(number, errno, code at 0, 4, 8; address at 16), ``struct elf_prpsinfo`` (136 bytes: pid at 24, parent at 28,
name at 40, arguments at 56), NT_FILE (count, page size, rows of three words, then the names), NT_AUXV (pairs
of words).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from analyzers.core import elf
from analyzers.core.files import plain
from analyzers.core.model import MappedFile, ThreadRegisters

NT_PRSTATUS = 1
NT_PRPSINFO = 3
NT_AUXV = 6
NT_SIGINFO = 0x53494749
NT_FILE = 0x46494C45
REGISTER_NAMES = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)
REGISTERS_AT = 112
REGISTERS = struct.Struct("<27Q")
PRSTATUS_SIZE = 336
PRPSINFO_SIZE = 136
SIGINFO_SIZE = 24
MAX_NOTES = 1 << 17  # eight for each of the most threads; a note may be as small as 12 bytes
MAX_THREADS = 1 << 14  # a server has some tens; each costs 2 KB here
MAX_MAPPED_FILES = 1 << 16  # the kernel's default vm.max_map_count
MAX_AUXV = 64  # the kernel writes about 20
NO_DEATH = frozenset({0, 19})  # a debugger's snapshot of a living process carries none or SIGSTOP
FAULT_SIGNALS = frozenset({4, 7, 8, 11})  # SIGILL, SIGBUS, SIGFPE, SIGSEGV carry an address
SI_KERNEL = 0x80  # the kernel knows no address, for example for a non-canonical pointer
NON_CANONICAL = range(1 << 47, (1 << 64) - (1 << 47))


@dataclass
class Records:
    """What has been read so far; the first record of a kind wins, as the crashed thread's come first."""

    threads: dict[int, ThreadRegisters] = field(default_factory=dict)
    mapped: tuple[MappedFile, ...] = ()
    auxv: dict[int, int] = field(default_factory=dict)
    pid: int | None = None
    parent: int | None = None
    program: str | None = None
    arguments: str | None = None
    delivered: int | None = None  # pr_cursig of the first thread
    siginfo: tuple[int, int, int] | None = None  # number, code, address
    limits: tuple[str, ...] = ()

    def fault(self) -> tuple[int | None, int | None, int | None]:
        """Signal, si_code and fault address. The address is None unless the kernel set a real one."""
        number, code, address = self.siginfo or (self.delivered or 0, None, 0)
        if number in NO_DEATH:
            return None, None, None
        from_cpu = number in FAULT_SIGNALS and code is not None and code > 0 and code != SI_KERNEL
        known = from_cpu and address not in NON_CANONICAL
        return number, code, address if known else None


def read_records(block: bytes, block_offset: int, records: Records) -> None:
    """Add the records of one note segment, which starts at ``block_offset`` of the file."""
    for count, note in enumerate(elf.notes(block)):
        if count >= MAX_NOTES:
            records.limits = (*records.limits, f"only the first {MAX_NOTES} notes were read")
            return
        reader = _READERS.get(note.type) if note.owner == b"CORE" else None
        if reader is not None:
            reader(note.body, block_offset + note.offset, records)


def _read_thread(body: bytes, offset: int, records: Records) -> None:
    if len(body) < PRSTATUS_SIZE:
        return
    if len(records.threads) >= MAX_THREADS:
        limit = f"only the first {MAX_THREADS} threads were read"
        records.limits = tuple(dict.fromkeys((*records.limits, limit)))
        return
    if not records.threads:
        records.delivered = struct.unpack_from("<h", body, 12)[0]
    tid = struct.unpack_from("<i", body, 32)[0]
    registers = dict(zip(REGISTER_NAMES, REGISTERS.unpack_from(body, REGISTERS_AT), strict=True))
    records.threads.setdefault(tid, ThreadRegisters(tid, registers, offset + REGISTERS_AT))


def _read_siginfo(body: bytes, offset: int, records: Records) -> None:
    if len(body) >= SIGINFO_SIZE and records.siginfo is None:
        number, _, code = struct.unpack_from("<iii", body, 0)
        records.siginfo = (number, code, struct.unpack_from("<Q", body, 16)[0])


def _read_process(body: bytes, offset: int, records: Records) -> None:
    if len(body) >= PRPSINFO_SIZE and records.pid is None:
        records.pid, records.parent = struct.unpack_from("<ii", body, 24)
        records.program = plain(_text(body[40:56])) or None
        records.arguments = _text(body[56:136]).strip() or None


def _read_auxv(body: bytes, offset: int, records: Records) -> None:
    if not records.auxv:
        pairs = struct.iter_unpack("<QQ", body[: min(len(body) // 16, MAX_AUXV) * 16])
        records.auxv.update((key, value) for key, value in pairs if key)


def _read_files(body: bytes, offset: int, records: Records) -> None:
    if len(body) < 16 or records.mapped:
        return
    promised, page = struct.unpack_from("<QQ", body, 0)
    count = min(promised, (len(body) - 16) // 24, MAX_MAPPED_FILES)
    if count < promised:
        records.limits = (*records.limits, f"only {count} of {promised} mapped files were read")
    names = body[16 + promised * 24 :].split(b"\0", count) if promised * 24 <= len(body) else []
    rows = struct.iter_unpack("<QQQ", body[16 : 16 + count * 24])
    records.mapped = tuple(
        MappedFile(start, end, pages * page, name.decode("utf-8", "surrogateescape"))
        for (start, end, pages), name in zip(rows, names, strict=False)
        if start < end
    )


def _text(field_bytes: bytes) -> str:
    return field_bytes.split(b"\0", 1)[0].decode("utf-8", "replace")


_READERS: dict[int, Callable[[bytes, int, Records], None]] = {
    NT_PRSTATUS: _read_thread,
    NT_PRPSINFO: _read_process,
    NT_AUXV: _read_auxv,
    NT_SIGINFO: _read_siginfo,
    NT_FILE: _read_files,
}
