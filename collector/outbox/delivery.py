"""Hands what the outbox holds to the sinks: at least once, metadata first, no sink waiting for another."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from analyzers.contracts.outbox import (
    ATTACHMENTS,
    DELIVERED,
    KEPT,
    LOST,
    MAX_NAME,
    REFUSED,
    WANTED,
    AttachmentRow,
)
from analyzers.contracts.outbox_read import attachment_row
from analyzers.privacy.visible import visible
from collector.outbox.lane import MOST_ASKED, Lane, delay
from collector.outbox.sinks import Accepted, Answer, Later, Outgoing, Refused, Sink
from collector.outbox.store import Store

# Failures of one record, others having come through between any two of them, before it is taken for one that
# never will. A hub that fails with everything makes no record a bad one, however long it does.
POISON_ATTEMPTS = 10
MAX_PROBLEM = 300
LOOKED_AT = 500  # rows of one look for work
STOP_SECONDS = 2.0
_UNDELIVERED = (
    "SELECT i.id, i.revision FROM incidents i LEFT JOIN deliveries d ON d.sink = ? AND d.incident = i.id "
    "WHERE coalesce(d.revision, 0) < i.revision ORDER BY i.opened LIMIT ?"
)
_ROW = "SELECT incident, name, kind, size, sha256, state, private, added FROM attachments WHERE incident = ?"
_WANTED = "SELECT incident, name FROM wanted WHERE sink = ? AND state = ? ORDER BY incident, name LIMIT ?"


@dataclass(frozen=True)
class SinkHealth:
    """How one sink is. ``problem`` is one line; counts since the start."""

    name: str
    delivered: int
    refused: int
    problem: str | None


@dataclass(frozen=True)
class _Record:
    ident: str
    revision: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class _File:
    row: AttachmentRow


class Delivery:
    """``step`` is called by the thread that owns the store, often; it never blocks. ``jitter`` draws evenly
    from 0 to 1; ``mono`` is a clock that never jumps: a wall clock set back a year delays nothing."""

    def __init__(
        self,
        store: Store,
        sinks: Sequence[Sink],
        jitter: Callable[[], float] = random.random,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._jitter, self._mono = store, jitter, mono
        self.lanes = [Lane(sink) for sink in sinks]
        store.sinks = tuple(lane.sink.name for lane in self.lanes)

    def step(self) -> bool:
        """Take what came back and start what is due. True while a call is in flight."""
        for lane in self.lanes:
            if lane.busy and (done := lane.answer()) is not None:
                self._settle(lane, *done)
            if not lane.busy and self._mono() >= lane.not_before:
                self._begin(lane)
        return any(lane.busy for lane in self.lanes)

    def health(self) -> list[SinkHealth]:
        return [SinkHealth(lane.sink.name, lane.delivered, lane.refused, lane.problem) for lane in self.lanes]

    def close(self) -> None:
        """Wait a moment for calls in flight; what they did not finish is sent again after the next start."""
        for lane in self.lanes:
            if lane.busy and (done := lane.answer(STOP_SECONDS)) is not None:
                self._settle(lane, *done)
            lane.stop(STOP_SECONDS)

    def _begin(self, lane: Lane) -> None:
        """Records first: the knowledge of a death must not wait for megabytes about something else."""
        if not (self._send(lane) or self._attach(lane)):
            lane.seen = self._store.changes

    def _send(self, lane: Lane) -> bool:
        if lane.seen == self._store.changes and not lane.waits:
            return False
        now = self._mono()
        ready = [one for one in self._undelivered(lane.sink.name) if lane.waits.get(one[0], 0.0) <= now]
        for ident, revision in sorted(ready, key=lambda one: lane.attempts.get(one[0], 0)):
            record = self._store.incident(ident)
            if record is None:  # its JSON is beyond reading: marked, or it would be looked at for ever
                self._mark(lane, ident, revision, REFUSED, "its record cannot be read")
                continue
            rows = tuple(row for row in self._rows(ident) if row.state == KEPT and not row.private)
            outgoing = Outgoing(record, rows)
            what = _Record(ident, record.revision, tuple(row.name for row in rows))
            lane.start(what, partial(lane.sink.send, outgoing))
            return True
        return False

    def _undelivered(self, sink: str) -> list[tuple[str, int]]:
        """(id, revision), the oldest first; what is still in memory, also without a disk."""
        pending = self._store.pending
        found = {row[0]: int(row[1]) for row in self._store.rows(_UNDELIVERED, (sink, LOOKED_AT))}
        found.update({ident: row[1] for ident, row in pending.incidents.items()})
        known = {ident: row[2] for (name, ident), row in pending.progress.items() if name == sink}
        return [(ident, revision) for ident, revision in found.items() if revision > known.get(ident, 0)]

    def _attach(self, lane: Lane) -> bool:
        name, waiting = lane.sink.name, self._store.pending.asked
        asked = {(row[0], row[1]): WANTED for row in self._store.rows(_WANTED, (name, WANTED, LOOKED_AT))}
        asked.update({key[1:]: row[3] for key, row in waiting.items() if key[0] == name})
        now = self._mono()
        for (ident, wanted), state in asked.items():
            if state != WANTED or lane.waits.get(f"{ident}/{wanted}", 0.0) > now:
                continue
            row = next((each for each in self._rows(ident) if each.name == wanted), None)
            if row is None or row.private or row.state != KEPT:
                self._store.note(asked=[(name, ident, wanted, LOST, "it was dropped before it was sent")])
                continue
            path = self._store.folder / ATTACHMENTS / row.sha256
            lane.start(_File(row), partial(lane.sink.attach, row, path))
            return True
        return False

    def _rows(self, ident: str) -> list[AttachmentRow]:
        rows = self._store.rows(_ROW, (ident,))
        return [attachment_row(*row) for row in rows]

    def _settle(self, lane: Lane, what: object, answer: Answer) -> None:
        if isinstance(what, _Record):
            self._settle_record(lane, what, answer)
        elif isinstance(what, _File):
            self._settle_file(lane, what.row, answer)

    def _settle_record(self, lane: Lane, what: _Record, answer: Answer) -> None:
        if isinstance(answer, Accepted):
            self._well(lane)
            lane.delivered += 1
            lane.forget(what.ident)
            wish = [one for one in what.names if one in {str(each)[:MAX_NAME] for each in answer.want}]
            sink = lane.sink.name
            self._store.note(asked=[(sink, what.ident, one, WANTED, None) for one in wish])
            self._mark(lane, what.ident, what.revision, DELIVERED, None)
        elif isinstance(answer, Refused):
            self._well(lane)
            self._refuse(lane, what, answer.why)
        else:
            self._failed(lane, what.ident, answer)
            if lane.attempts.get(what.ident, 0) >= POISON_ATTEMPTS:
                self._refuse(lane, what, f"given up: {answer.why}")

    def _refuse(self, lane: Lane, what: _Record, why: str) -> None:
        lane.refused += 1
        lane.forget(what.ident)
        self._store.pending.dropped["refused_incidents"] += 1
        self._mark(lane, what.ident, what.revision, REFUSED, why)

    def _settle_file(self, lane: Lane, row: AttachmentRow, answer: Answer) -> None:
        key = f"{row.incident}/{row.name}"
        if isinstance(answer, Later):
            self._failed(lane, key, answer)
            if lane.attempts.get(key, 0) < POISON_ATTEMPTS:
                return
            answer = Refused(f"given up: {answer.why}")
        self._well(lane)
        lane.forget(key)
        state, why = (
            (REFUSED, visible(answer.why)[:MAX_PROBLEM]) if isinstance(answer, Refused) else (DELIVERED, None)
        )
        self._store.note(asked=[(lane.sink.name, row.incident, row.name, state, why)])

    def _failed(self, lane: Lane, key: str, answer: Later) -> None:
        lane.failures += 1
        lane.problem = visible(f"{lane.sink.name}: {answer.why}")[:MAX_PROBLEM]
        wait = delay(lane.failures - 1, self._jitter())
        lane.not_before = self._mono() + max(wait, min(answer.after or 0.0, MOST_ASKED))
        if answer.answered:
            if lane.delivered != lane.delivered_at.get(key):
                lane.attempts[key] = lane.attempts.get(key, 0) + 1
            lane.delivered_at[key] = lane.delivered
            lane.waits[key] = self._mono() + delay(lane.attempts[key], self._jitter())

    def _well(self, lane: Lane) -> None:
        lane.failures, lane.not_before, lane.problem = 0, float("-inf"), None

    def _mark(self, lane: Lane, ident: str, revision: int, state: str, why: str | None) -> None:
        attempts = lane.attempts.get(ident, 0)
        row = (lane.sink.name, ident, revision, state, attempts, why and visible(why)[:MAX_PROBLEM])
        self._store.note(progress=[row])
