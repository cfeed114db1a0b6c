"""Follows a journal: entries to evidence as they come, from a cursor on, over rotation, vacuum and damage."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import to_evidence
from analyzers.contracts.report import Gap
from analyzers.contracts.watched import HostFact
from collector.sources.follow.drain import JUMP, Clocks, drain, uncollected
from collector.sources.follow.journal_entries import Entries, Out
from collector.sources.follow.journal_open import Files, Journal, inspect
from collector.sources.follow.journal_who import Wanted
from collector.sources.follow.position import JournalPosition, clock, sequence_of
from collector.sources.follow.recall import Recalls
from collector.sources.follow.seen import Seen, bounded
from collector.sources.stream import DEFAULT_LIMIT, Batch, StreamHealth

POLL_SECONDS = 0.2  # between two polls besides fileno(): journald tells of new entries after a quarter second
STEPS = 20_000  # entries of one poll: 30 ms when nobody wants them, and other streams wait that long
ASK_AGAIN = 5.0  # seconds after which a sender is looked at anew: its number may be another process's
REOPEN = 10.0  # seconds between attempts to open a journal that could not be, and looks at its files
INVALIDATE = 2  # sd_journal_process: files came or went
MISSING = "systemd-python is not installed: pip install 'llama-blackbox[journal]'"


class JournalStream:
    """The contract of sources/stream.py over one journal.

    ``since`` (Unix seconds) is where a stream without a cursor begins, None for now. With ``kernel`` the
    kernel's lines are read here: only where /dev/kmsg is not (one of both, never twice).
    """

    def __init__(
        self,
        journal: Journal,
        wanted: Wanted,
        *,
        cursor: str | None = None,
        since: float | None = None,
        kernel: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = journal.name
        self._journal, self._since, self._now = journal, since, now
        self._entries = Entries(wanted, kernel)
        self._recalls = Recalls(journal, self._entries)
        self._position = JournalPosition.of(cursor)
        self._broken_cursor = cursor is not None and self._position is None
        self._reader: Any = None
        self._held = False  # the reader stands on an entry that was not taken yet
        self._clocks = Clocks()
        self._tried = self._asked = self._looked = float("-inf")
        self._files = Files()
        self._failure: str | None = None
        self._read = self._told = self._lost = self._damaged = 0

    def fileno(self) -> int | None:
        """libsystemd's inotify descriptor; poll every POLL_SECONDS besides."""
        return None if self._reader is None else int(self._reader.fileno())

    def seen(self) -> dict[str, Seen]:
        """Counters of every wanted sender, by PID (a container's by its name). Costs nothing."""
        return self._entries.seen

    def refresh(self) -> None:
        """Who is wanted has changed."""
        self._entries.forget()

    def recall(self, pid: int, since: float) -> None:
        """Read again, from Unix second ``since`` to where the stream is, what ``pid`` printed: for a server
        that was found after its first lines. Evidence has the same ids as in the first reading."""
        self._recalls.ask(pid, since)

    def use_kernel(self, kernel: bool) -> None:
        """Read the kernel's lines here, or no longer."""
        self._entries.kernel = kernel

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def health(self) -> StreamHealth:
        problem = self._failure or self._files.problem
        state = "failed" if self._failure else "degraded" if problem else "ok"
        if self._reader is not None and not self._failure and not self._files.readable:
            state, problem = ("failed", problem) if problem else ("waiting", "no journal file is here yet")
        if self._damaged and state == "ok":
            state, problem = "degraded", f"{self._damaged} damaged entries were passed over"
        return StreamHealth(state, problem, self._read, self._told, self._lost)

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch:
        """New entries. Never raises for what the journal does."""
        out = Out()
        try:
            more = self._poll(limit, out)
        except (OSError, ValueError) as problem:
            more = False
            self._fail(f"the journal cannot be read on: {_reason(problem)}")
        self._told += len(out.evidence)
        self._lost += out.lost
        cursor = None if self._position is None else self._position.text()
        return Batch(tuple(out.evidence), cursor, tuple(out.gaps), more)

    def _poll(self, limit: int, out: Out) -> bool:
        if self._reader is None and not self._open(out):
            return False
        if self._now() - self._asked >= ASK_AGAIN:
            self._asked = self._now()
            self._entries.forget()
            bounded(self._entries.seen)
        if self._reader.process() == INVALIDATE:
            self._look()
            if self._position is not None:
                self._seek(self._position, out)
        elif self._now() - self._looked >= REOPEN:
            self._look()
        recalled = self._recalls.read(self._position, out)
        with uncollected():
            return self._drain(limit, out) or recalled

    def _open(self, out: Out) -> bool:
        if self._now() - self._tried < REOPEN:
            return False
        self._tried = self._now()
        self._look()
        try:
            self._reader = self._journal.open()
        except ImportError:
            self._failure = MISSING
            return False
        except (OSError, ValueError) as problem:
            self._failure = f"the journal cannot be opened: {_reason(problem)}"
            return False
        self._failure = None
        self._reader.fileno()  # only now does libsystemd watch the folders
        if self._broken_cursor:
            self._broken_cursor = False
            why = "the stored position is no journal cursor; reading goes on from now"
            out.gaps.append(Gap(what="journal entries since the last run", why=why))
        self._begin(out)
        return True

    def _look(self) -> None:
        self._looked = self._now()
        self._files = inspect(self._journal)

    def _fail(self, why: str) -> None:
        self._failure = why
        with suppress(OSError):
            self.close()

    def _begin(self, out: Out) -> None:
        if self._position is not None:
            self._seek(self._position, out)
        elif self._since is not None:
            self._reader.seek_realtime(max(0, int(self._since * 1e6)))
        else:
            self._reader.seek_tail()
            if self._reader._previous(1):
                self._note()
            else:
                self._reader.seek_head()

    def _seek(self, position: JournalPosition, out: Out) -> None:
        """Stand on the entry of ``position``, or on the first one after it; then a gap names the span."""
        self._held = False
        usable = self._sought(position)
        if self._reader._next(1):
            if usable and self._reader.test_cursor(position.cursor):
                return
            if self._reader._get_realtime() <= position.wall and self._foreign(position):
                self._reader.seek_realtime(position.wall + 1)  # other numbering: only time is left
                self._held = bool(self._reader._next(1))
            else:
                self._held = True
        self._tell_span(position, out)

    def _sought(self, position: JournalPosition) -> bool:
        try:
            self._reader.seek_cursor(position.cursor)
        except (ValueError, OSError):  # no cursor of this library's making
            self._reader.seek_realtime(position.wall + 1)
            return False
        return True

    def _foreign(self, position: JournalPosition) -> bool:
        found, kept = sequence_of(self._reader._get_cursor()), position.sequence()
        return found is None or kept is None or found[0] != kept[0]

    def _tell_span(self, position: JournalPosition, out: Out) -> None:
        """The last entry that was read is gone, so others may be. The journal's numbering can say: none."""
        until, count = "now", None
        if self._held:
            until = clock(self._reader._get_realtime() / 1e6)
            found, kept = sequence_of(self._reader._get_cursor()), position.sequence()
            if found is not None and kept is not None and found[0] == kept[0]:
                count = found[1] - kept[1] - 1
        if count is not None and count <= 0:
            return
        many = f"up to {count} journal entries" if count is not None else "journal entries"
        why = f"those between {clock(position.wall / 1e6)} and {until} were rotated or vacuumed away unread"
        self._lost += count or 0
        out.gaps.append(Gap(what=many, why=why, command="SystemMaxUse= in journald.conf sets what is kept"))

    def _drain(self, limit: int, out: Out) -> bool:
        """Up to ``limit`` evidence objects and STEPS entries; True when the end was not reached."""
        left = STEPS
        if self._held:
            self._held = False
            left -= self._one(out)
        while left > 0:
            try:
                taken, why = drain(self._reader, self._entries, self._clocks, out, left, limit)
            except OSError:  # a damaged entry, or one of a file that went away under us
                self._damaged += 1
                taken, why = 1, "damaged"
            left -= taken
            self._read += taken
            if why in ("end", "full"):
                self._note(left < STEPS)
                return why == "full"
            left -= self._one(out) if why == "clock" else 0
        self._note(True)
        return True

    def _one(self, out: Out) -> int:
        """Take the current entry, whose clocks are to be looked at; 1."""
        reader, self._read = self._reader, self._read + 1
        try:
            wall, (mono, boot) = reader._get_realtime(), reader._get_monotonic()
            if boot != self._clocks.boot:
                self._new_boot(boot, wall, mono, out)
            elif not self._clocks.low < wall - mono < self._clocks.high:
                self._jumped(wall, mono, out)
            self._clocks.keep(boot, wall - mono)
            pid = reader._get("_PID")
            self._entries.take(reader, pid, wall, mono, out)
        except KeyError:
            self._entries.take_pidless(reader, wall, mono, out)
        except OSError:
            self._damaged += 1
        return 1

    def _note(self, moved: bool = True) -> None:
        """Remember the entry on which the reader stands."""
        if not moved:
            return
        with suppress(OSError):
            reader = self._reader
            wall, (mono, boot) = reader._get_realtime(), reader._get_monotonic()
            self._position = JournalPosition(reader._get_cursor(), wall, mono, boot.hex())
            if not self._clocks.boot:
                self._entries.boot(boot)
            # what drifts slowly is followed from poll to poll
            if self._clocks.boot in (b"", boot):
                self._clocks.keep(boot, wall - mono)

    def _new_boot(self, boot: bytes, wall: int, mono: int, out: Out) -> None:
        before = self._clocks.boot.hex() or (self._position.boot if self._position else "")
        self._entries.boot(boot)
        if before and before != boot.hex():
            out.evidence.append(_rebooted(before, boot.hex(), wall, mono))

    def _jumped(self, wall: int, mono: int, out: Out) -> None:
        """The clock was set, or the machine slept: CLOCK_MONOTONIC stands still meanwhile."""
        by = (wall - mono - (self._clocks.low + JUMP)) / 1e6
        how = "back" if by < 0 else "ahead, or the machine slept"
        why = (
            f"at {clock(wall / 1e6)} the wall clock went {abs(by):.1f} s {how}; "
            "times before and after it compare by the monotonic clock only"
        )
        out.gaps.append(Gap(what="an even wall clock", why=why))


def _rebooted(before: str, boot: str, wall: int, mono: int) -> Evidence:
    return to_evidence(
        HostFact(event="rebooted", boot_id=boot),
        id=f"boot-{boot}",
        source="the journal's boot id",
        text="the machine booted again: the journal goes on under another boot id",
        trust=Trust.SUPERVISOR,
        wall=wall / 1e6,
        mono=mono / 1e6,
        incarnation=Incarnation(boot_id=before),
    )


def _reason(problem: Exception) -> str:
    return (getattr(problem, "strerror", None) or str(problem) or type(problem).__name__).lower()
