"""Random access to the memory of the dead process: one open file, a search by bisection, bounded reads."""

from __future__ import annotations

import struct
from bisect import bisect_right
from contextlib import ExitStack
from types import TracebackType

from analyzers.core.files import opened_regular, pread
from analyzers.core.model import Core, Segment

WORD = 8
MAX_JOINED = 64  # neighbouring segments read as one: a stack window of 256 KB in single pages
MAX_READ = 1 << 20  # the largest single read anybody here needs is a stack window of 256 KB


class Memory:
    """The dumped memory of ``core``; a context manager that raises UserError when the file is gone.

    Where segments overlap, as only a damaged core has them, the one that starts last is believed.
    """

    def __init__(self, core: Core) -> None:
        self._path = core.path
        self._writable = [segment for segment in core.segments if segment.writable]
        held = [segment for segment in core.segments if segment.file_size > 0]
        self._segments = sorted(held, key=lambda segment: segment.address)
        self._starts = [segment.address for segment in self._segments]
        self._open = ExitStack()
        self._descriptor = -1

    def __enter__(self) -> Memory:
        self._descriptor = self._open.enter_context(opened_regular(self._path))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def segment_at(self, address: int) -> Segment | None:
        """The dumped segment that covers ``address``."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        segment = self._segments[index]
        return segment if address < segment.address + segment.file_size else None

    def known(self, address: int) -> bool:
        """The process had writable memory at ``address``, dumped or not."""
        return any(row.address <= address < row.address + row.size for row in self._writable)

    def left_out(self, address: int) -> bool:
        """The process had writable memory at ``address`` which the core does not hold."""
        return self.known(address) and self.segment_at(address) is None

    def read(self, address: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``address``; shorter or empty where the core lacks them.

        A small core holds neighbouring pages as segments of their own: those are read as one.
        """
        data = self._part(address, min(size, MAX_READ))
        for _ in range(MAX_JOINED):
            missing = min(size, MAX_READ) - len(data)
            more = self._part(address + len(data), missing) if data and missing > 0 else b""
            if not more:
                break
            data += more
        return data

    def _part(self, address: int, size: int) -> bytes:
        """What one segment holds of it."""
        segment = self.segment_at(address)
        if segment is None:
            return b""
        into = address - segment.address
        return pread(self._descriptor, min(size, segment.file_size - into), segment.file_offset + into)

    def word(self, address: int) -> int | None:
        """The 8-byte word at ``address``; None where the core lacks it."""
        data = self.read(address, WORD)
        return int(struct.unpack("<Q", data)[0]) if len(data) == WORD else None

    def words(self, address: int, size: int) -> tuple[int, ...]:
        """The whole words among the ``size`` bytes from ``address`` on."""
        data = self.read(address, size)
        return struct.unpack(f"<{len(data) // WORD}Q", data[: len(data) // WORD * WORD])
