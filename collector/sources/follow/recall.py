"""Reads again what one process printed before it was known to be a server."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

from collector.sources.follow.journal_entries import Entries, Out
from collector.sources.follow.journal_open import Journal
from collector.sources.follow.position import JournalPosition

ENTRIES = 5000  # of one recall: a start prints a few hundred lines, a chatty one is cut at its beginning
WAITING = 64  # recalls in the queue; the oldest go first


class Recalls:
    """A queue of wishes, one read a poll."""

    def __init__(self, journal: Journal, entries: Entries) -> None:
        self._journal, self._entries = journal, entries
        self._wishes: deque[tuple[int, float]] = deque(maxlen=WAITING)

    def ask(self, pid: int, since: float) -> None:
        if (pid, since) not in self._wishes:
            self._wishes.append((pid, since))

    def read(self, until: JournalPosition | None, out: Out) -> bool:
        """Serve one wish; True when others wait. Nothing to read again before the stream has a position."""
        if not self._wishes or until is None:
            return False
        pid, since = self._wishes.popleft()
        with suppress(OSError, ValueError):
            reader = self._journal.open()
            try:
                reader.add_match(f"_PID={pid}")
                reader.seek_realtime(max(0, int(since * 1e6)))
                self._read(reader, until, out)
            finally:
                reader.close()
        return bool(self._wishes)

    def _read(self, reader: Any, until: JournalPosition, out: Out) -> None:
        boot = bytes.fromhex(until.boot)
        for _ in range(ENTRIES):
            if not reader._next(1):
                return
            wall, (mono, of_boot) = reader._get_realtime(), reader._get_monotonic()
            if of_boot != boot:
                continue
            if mono > until.mono:
                return
            with suppress(KeyError, OSError):
                self._entries.take(reader, reader._get("_PID"), wall, mono, out)
