"""What a core's ELF headers and notes say, as plain data. Filled by ``analyzers.core.notes.read_core``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class ThreadRegisters:
    """One thread's NT_PRSTATUS. Register names as in user_regs_struct (rip, rsp, rdi, r10, orig_rax …)."""

    tid: int
    registers: Mapping[str, int]
    registers_offset: int  # file offset of the 27 x 8 byte register block inside the core


@dataclass(frozen=True)
class MappedFile:
    """One row of NT_FILE; ``file_offset`` is in bytes."""

    start: int
    end: int
    file_offset: int
    path: str


@dataclass(frozen=True)
class Segment:
    """One PT_LOAD: ``size`` bytes at ``address``, of which ``file_size`` stand at ``file_offset``."""

    address: int
    size: int
    file_offset: int
    file_size: int
    executable: bool
    writable: bool = False


@dataclass(frozen=True)
class Core:
    """A core file, opened and understood as far as its notes go. The crashed thread comes first."""

    path: Path
    signal: int | None = None
    si_code: int | None = None
    fault_address: int | None = None  # None: unknown
    pid: int | None = None
    parent: int | None = None  # id of the parent's THREAD that forked it (measured), not of the process
    program: str | None = None
    arguments: str | None = None  # NT_PRPSINFO, at most 80 characters, NOT redacted
    threads: tuple[ThreadRegisters, ...] = ()
    mapped: tuple[MappedFile, ...] = ()
    segments: tuple[Segment, ...] = ()
    cut: bool = False  # the file ends before the data its headers promise
    file_size: int = 0
    build_ids: Mapping[str, str] = field(default_factory=dict)  # path -> build-id found in the core itself
    auxv: Mapping[int, int] = field(default_factory=dict)  # NT_AUXV: AT_ number -> value
    limits: tuple[str, ...] = ()  # bounds of the reader that this file went past, one readable line each

    @property
    def crashed(self) -> ThreadRegisters | None:
        """The thread the signal was delivered to; None when the core has no thread notes."""
        return self.threads[0] if self.threads else None

    def thread(self, tid: int | None) -> ThreadRegisters | None:
        """The registers of thread ``tid``."""
        return next((thread for thread in self.threads if thread.tid == tid), None)

    def read(self, address: int, size: int) -> bytes:
        """Up to ``size`` bytes of the dead process's memory; shorter (or empty) where the core lacks them."""
        for segment in self.segments:
            if segment.address <= address < segment.address + segment.file_size:
                room = segment.address + segment.file_size - address
                return self._pread(segment.file_offset + address - segment.address, min(size, room))
        return b""

    def _pread(self, offset: int, size: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def mapped_at(self, address: int) -> MappedFile | None:
        """The mapped file row that covers ``address``."""
        return next((row for row in self.mapped if row.start <= address < row.end), None)

    def load_address(self, path: str) -> int | None:
        """Lowest address at which ``path`` is mapped from its beginning."""
        starts = [row.start for row in self.mapped if row.path == path and row.file_offset == 0]
        return min(starts, default=None)
