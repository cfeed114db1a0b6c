"""What is not on the disk yet: at most a tick's worth, more while the disk is full, never without bound."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from analyzers.contracts.outbox import ServerRow, TransitionRow
from collector.outbox import limits
from collector.outbox.rows import Row, evidence_row, incident_row, plain
from collector.outbox.write import NewAttachment, Write

ID, REVISION = 0, 1  # columns of an incident's row
EVIDENCE_SIZE = 7  # column of an evidence row


@dataclass
class Pending:
    """Rows to be written. ``dropped`` counts what did not fit, by the counters' names."""

    evidence: deque[Row] = field(default_factory=deque)
    cursors: dict[str, str] = field(default_factory=dict)
    incidents: dict[str, Row] = field(default_factory=dict)
    attachments: list[NewAttachment] = field(default_factory=list)
    servers: dict[str, ServerRow] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    transitions: deque[TransitionRow] = field(default_factory=deque)
    progress: dict[tuple[str, str], Row] = field(default_factory=dict)
    asked: dict[tuple[str, str, str], Row] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    first: int | None = None  # number of the first fact, once it was tried to write it
    urgent: bool = False

    @property
    def empty(self) -> bool:
        parts = (self.evidence, self.cursors, self.incidents, self.attachments, self.servers, self.gone)
        return not any((*parts, self.transitions, self.progress, self.asked, self.dropped))

    def put(self, write: Write) -> None:
        """Take in ``write``; an older revision of an incident than the one already here is left out."""
        for each in write.yields:
            self._evidence([evidence_row(each.stream, item) for item in each.evidence])
            if each.cursor is not None:
                self.cursors[plain(each.stream)] = plain(each.cursor)
        for record in write.incidents:
            self._incident(incident_row(record))
        for new in write.attachments:
            self.attachments.append(new)
            self.bytes += _memory(new)
        for server in write.servers:
            self.servers[server.key] = server
            self.gone.discard(server.key)
        for key in write.gone:
            self.servers.pop(key, None)
            self.gone.add(key)
        self.transitions.extend(write.transitions)
        self.urgent |= bool(write.incidents or write.attachments)
        self.trim()

    def _evidence(self, rows: list[Row]) -> None:
        self.evidence.extend(rows)
        self.bytes += sum(row[EVIDENCE_SIZE] for row in rows)

    def _incident(self, row: Row) -> None:
        known = self.incidents.get(row[ID])
        if known is None or row[REVISION] > known[REVISION]:
            self.incidents[row[ID]] = row

    def trim(self) -> None:
        """Keep to the bounds: the oldest evidence goes first, then attachments, then the oldest incidents."""
        while self.bytes > limits.MEMORY_BYTES and self.evidence:
            self.bytes -= self.evidence.popleft()[EVIDENCE_SIZE]
            self.first = None if self.first is None else self.first + 1
            self.dropped["dropped_evidence"] += 1
        while self.bytes > limits.MEMORY_BYTES and any(_memory(each) for each in self.attachments):
            self.bytes -= _memory(self.attachments.pop(0))
            self.dropped["dropped_attachments"] += 1
        while len(self.transitions) > limits.MEMORY_TRANSITIONS:
            self.transitions.popleft()
            self.dropped["dropped_transitions"] += 1
        while len(self.incidents) > limits.MEMORY_INCIDENTS:
            self.incidents.pop(next(iter(self.incidents)))
            self.dropped["dropped_incidents"] += 1

    def taken(self, left: list[NewAttachment]) -> None:
        """Everything but ``left`` is on the disk."""
        self.__init__()  # type: ignore[misc]  # as new
        self.attachments = left
        self.bytes = sum(_memory(each) for each in left)


def _memory(new: NewAttachment) -> int:
    return len(new.data) if isinstance(new.data, bytes) else 0
