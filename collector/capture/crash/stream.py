"""The head of the core the kernel writes into the pipe, and the rest of it into a file."""

import os
from select import POLLHUP, POLLIN, poll
from struct import Struct, error
from time import monotonic

from collector.capture.crash import limits
from collector.capture.crash.corefile import PAGE, write_sparse

_HEADER_SIZE, _PHDR = 64, Struct("<IIQQQQQQ")
_PT_NOTE = 4


class EndedError(Exception):
    """The stream ended, stalled or is no core: what it says stands in the text."""


class Stream:
    """Standard input or a socket. ``head``: everything read so far, up to the end of the notes."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.head = b""
        self.notes = b""
        self.segments: list[tuple[int, ...]] = []
        self.cut_notes = 0

    def read_head(self, seconds: float = limits.NOTES_SECONDS) -> None:
        """Header, program headers and notes. Raises EndedError; what came before stays in ``head``."""
        end = monotonic() + seconds
        self._more(_HEADER_SIZE, end)
        if self.head[:6] != b"\x7fELF\x02\x01":
            raise EndedError("what the kernel sent is no 64-bit core")
        self._more(_HEADER_SIZE + _PHDR.size, end)
        row = _PHDR.unpack_from(self.head, _HEADER_SIZE)
        notes_at, size = row[2], row[5]
        if row[0] != _PT_NOTE or not _HEADER_SIZE < notes_at <= limits.PROGRAM_HEADERS_BYTES:
            raise EndedError("the core does not begin with its notes")
        self._more(notes_at, end)
        count = (notes_at - _HEADER_SIZE) // _PHDR.size
        self.segments = [_PHDR.unpack_from(self.head, _HEADER_SIZE + at * _PHDR.size) for at in range(count)]
        self.cut_notes = max(0, size - limits.NOTES_BYTES)
        try:
            self._more(notes_at + min(size, limits.NOTES_BYTES), end)
        finally:
            self.notes = self.head[notes_at:]

    def _more(self, size: int, end: float) -> None:
        parts, held = [self.head], len(self.head)
        waiter = poll()
        waiter.register(self.descriptor, POLLIN | POLLHUP)
        try:
            while held < size:
                if not waiter.poll(max(0.0, end - monotonic()) * 1000):
                    raise EndedError("the kernel's core stalled")
                part = os.read(self.descriptor, min(size - held, 1 << 20))
                if not part:
                    raise EndedError(f"the core ended after {held} bytes")
                parts.append(part)
                held += len(part)
        finally:
            self.head = b"".join(parts)

    def drain_to(self, target: int, limit: int) -> tuple[int, int, bool]:
        """Write head and rest to a file, pages of zeros as holes, at most ``limit`` bytes on the disk.

        Gives (size, bytes written, whether it is whole). Raises OSError for the disk.
        """
        whole = len(self.head) & -PAGE
        written = write_sparse(target, self.head[:whole], 0)
        at, rest = whole, self.head[whole:]
        buffer = bytearray(limits.PIPE_BYTES)
        view = memoryview(buffer)
        ended = False
        while not ended and written + len(buffer) <= limit:
            view[: len(rest)] = rest
            size = self._fill(view, len(rest))
            rest = b""
            ended = size < len(buffer)
            written += write_sparse(target, view[:size], at)
            at += size
        os.ftruncate(target, at)
        return at, written, ended and at >= self.promised()

    def promised(self) -> int:
        """The size the program headers give the core."""
        return max((row[2] + row[5] for row in self.segments), default=0)

    def _fill(self, view: memoryview, done: int) -> int:
        while done < len(view):
            got = os.readv(self.descriptor, [view[done:]])
            if not got:
                break
            done += got
        return done


def widen(descriptor: int) -> None:
    """A pipe of one mebibyte instead of 64 KiB: fewer turns between kernel and handler in a full core."""
    import fcntl

    try:
        fcntl.fcntl(descriptor, getattr(fcntl, "F_SETPIPE_SZ", 1031), limits.PIPE_BYTES)
    except (OSError, error):
        return
