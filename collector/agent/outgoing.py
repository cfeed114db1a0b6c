"""What one round leaves for the outbox, gathered as it comes about and committed at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox import AGENT_STREAM, ServerRow, TransitionRow
from collector.agent.about import STREAM, key_of, row_of
from collector.agent.service.journal_log import Log
from collector.agent.states.model import StateView, Transition
from collector.discovery.model import Ended, Found
from collector.outbox.store import Store
from collector.outbox.write import NewAttachment, Write, Yielded

WORK = {"awake", "busy"}
FLIP_SECONDS = 5.0
ROWS_EVERY = 5.0  # seconds between two rows of a server whose state did not change
Notes = Mapping[int, Sequence[str]]
View = Callable[[Found], StateView | None]


@dataclass
class Outgoing:
    """``facts`` are the agent's own; a stream's go into the store with its cursor."""

    store: Store
    log: Log
    facts: list[Evidence] = field(default_factory=list)
    _records: list[IncidentRecord] = field(default_factory=list)
    _transitions: list[TransitionRow] = field(default_factory=list)
    _gone: list[str] = field(default_factory=list)
    _rows: dict[int, tuple[str, float]] = field(default_factory=dict)
    _flips: dict[int, TransitionRow] = field(default_factory=dict)
    _flipped: dict[int, float] = field(default_factory=dict)

    def tell(self, records: Iterable[IncidentRecord]) -> None:
        """Incidents that were opened or revised."""
        for record in records:
            stored = self.store.revised(record)
            self._records.append(stored)
            say = self.log.warning if record.revision == 1 else self.log.info
            say("incident", record.summary, id=record.id, kind=record.kind, revision=stored.revision)

    def files(self, files: Sequence[NewAttachment]) -> None:
        """Attachments of incidents."""
        if files:
            self.store.put(Write(attachments=tuple(files)))

    def moved(self, found: Found, transition: Transition) -> None:
        """A server's state changed."""
        row = TransitionRow(
            key_of(found.incarnation), transition.new, transition.wall, transition.old, transition.mono
        )
        if {transition.old, transition.new} == WORK:
            self._flips[found.pid] = row
            return
        self._flips.pop(found.pid, None)
        self._rows.pop(found.pid, None)
        self._transitions.append(row)
        told = {"before": transition.old, "after": transition.new, **named(found)}
        self.log.info("state", transition.reason, **told)

    def brief(self, ended: Ended) -> None:
        """A server came and went between two looks."""
        state = "crashed" if ended.signal is not None or ended.code else "down"
        key = key_of(ended.found.incarnation)
        self._transitions.append(TransitionRow(key, state, ended.wall, None, ended.mono))
        self.log.info("server-brief", "a server came and went", **_end(ended))

    def changed(self, found: Found) -> None:
        """What is known of a server is something else now."""
        self._rows.pop(found.pid, None)

    def gone(self, ended: Ended) -> None:
        """The server is no longer shown."""
        for known in (self._rows, self._flips, self._flipped):
            known.pop(ended.found.pid, None)
        self._gone.append(key_of(ended.found.incarnation))
        self.log.info("server-ended", "a server is gone", **_end(ended))

    def flips(self, mono: float) -> None:
        """Beginnings and ends of work, a request each: the last one of every few seconds is enough."""
        for pid in list(self._flips):
            if mono - self._flipped.get(pid, float("-inf")) >= FLIP_SECONDS:
                self._flipped[pid] = mono
                self._transitions.append(self._flips.pop(pid))

    def commit(self, rows: Iterable[ServerRow] = (), health: str | None = None) -> None:
        """Everything into the store, in one transaction; synced when it is due. ``health``: the agent's own,
        as JSON, when a sign of life is due."""
        told = [Yielded(STREAM, None, tuple(self.facts))] if self.facts else []
        if health is not None:
            told.append(Yielded(AGENT_STREAM, health))
        self.store.put(
            Write(
                yields=tuple(told),
                incidents=tuple(self._records),
                servers=tuple(rows),
                transitions=tuple(self._transitions),
                gone=tuple(self._gone),
            )
        )
        for known in (self.facts, self._records, self._transitions, self._gone):
            known.clear()
        self.store.tick()

    def due_rows(
        self,
        living: Iterable[Found],
        view: View,
        notes: Mapping[int, Sequence[str]],
        mono: float,
        wall: float,
    ) -> Iterable[ServerRow]:
        """Rows of the servers whose state changed, or that were not written for a while."""
        for found in living:
            seen = view(found)
            state = seen.state if seen is not None else ""
            known = self._rows.get(found.pid)
            same = known is not None and ({known[0], state} <= WORK or known[0] == state)
            if known is None or not same or mono - known[1] >= ROWS_EVERY:
                self._rows[found.pid] = (state, mono)
                yield row_of(found, seen, wall, notes.get(found.pid, ()))


def named(found: Found) -> dict[str, object]:
    """A server for the log."""
    return {"pid": found.pid, "port": found.port, "unit": found.place.unit, "model": found.model}


def _end(ended: Ended) -> dict[str, object]:
    return {"signal": ended.signal, "code": ended.code, **named(ended.found)}
