"""One open log file, read on from an offset: whole lines, bounded, with what was lost by truncation."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from zlib import crc32

from analyzers.logs.text import MAX_LINE

READ = 1 << 18  # bytes of one read
HEAD = 64  # first bytes by which a file that was written anew is told from one that grew
WAIT_PARTIAL = 2.0  # seconds after which a line without its end is told: a crash's last words have none


@dataclass
class Line:
    """``at`` is the offset of its first byte; ``data`` has no LF and at most MAX_LINE bytes."""

    at: int
    data: bytes


@dataclass
class Tail:
    """``offset`` is where the next read begins; ``pending`` the beginning (at ``start``) of a line that has
    no end yet; ``skipping``: its rest is passed over, as it was told without its end."""

    descriptor: int
    offset: int = 0
    skipping: bool = False
    start: int = 0
    pending: bytearray = field(default_factory=bytearray)
    head: int = 0
    head_size: int = 0
    quiet_since: float = 0.0
    long_lines: int = 0

    def identity(self) -> tuple[int, int]:
        state = os.fstat(self.descriptor)
        return state.st_dev, state.st_ino

    @property
    def resume_at(self) -> int:
        """Where to go on after a restart: the beginning of a line that is not complete."""
        return self.offset if self.skipping else self.start

    def begin_at(self, offset: int, skipping: bool = False) -> None:
        self.offset = self.start = offset
        self.skipping = skipping
        self.pending.clear()
        self.head_size = 0
        self.note_head()

    def truncated(self) -> bool:
        """The file was cut, or written anew from its beginning, since the last look."""
        if os.fstat(self.descriptor).st_size < self.offset:
            return True
        return self.head_size > 0 and crc32(os.pread(self.descriptor, self.head_size, 0)) != self.head

    def note_head(self) -> None:
        """Remember how the file begins."""
        if self.head_size < min(HEAD, self.offset):
            begin = os.pread(self.descriptor, min(HEAD, self.offset), 0)
            self.head, self.head_size = crc32(begin), len(begin)

    def lines(self, now: float) -> tuple[list[Line], bool]:
        """Lines of the next READ bytes, and whether there may be more."""
        data = os.pread(self.descriptor, READ, self.offset)
        if not data:
            return self._patience(now), False
        self.quiet_since = now
        found = self._split(data)
        self.note_head()
        return found, len(data) == READ

    def _split(self, data: bytes) -> list[Line]:
        *whole, rest = data.split(b"\n")
        found, at = [], self.offset
        for part in whole:
            self._grow(part)
            if self.pending:
                found.append(Line(self.start, bytes(self.pending)))
            at += len(part) + 1
            self.pending.clear()
            self.skipping, self.start = False, at
        self._grow(rest)
        self.offset = at + len(rest)
        return found

    def _grow(self, part: bytes) -> None:
        """A line that is longer than the grammar reads keeps its beginning only."""
        room = MAX_LINE - len(self.pending)
        if self.skipping:
            return
        self.long_lines += len(part) > room > 0
        self.pending += part[:room]

    def _patience(self, now: float) -> list[Line]:
        if not self.pending or now - self.quiet_since < WAIT_PARTIAL:
            return []
        told = Line(self.start, bytes(self.pending))
        self.pending.clear()
        self.skipping = True
        return [told]
