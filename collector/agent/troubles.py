"""Incidents of servers that live: requests that nobody will answer, work without progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.incident import IncidentRecord, incident_id
from analyzers.contracts.report import Report
from collector.agent.deaths.book import Clock, bounded_verdict
from collector.agent.deaths.identity import name_of
from collector.agent.states.model import Transition
from collector.discovery.model import Found

KINDS = {"stranded": "stranded", "hung": "hang"}  # state -> kind of incident
MAX_SIGNS = 12


class TroubleBook:
    """One incident for each time that a server is stranded or hung; it closes when that is over. Every call
    returns the records that it opened or revised."""

    def __init__(self, *, host: str | None = None, clock: Clock | None = None) -> None:
        self._host = host
        self._clock = clock or Clock()
        self._open: dict[tuple[str, int | None], IncidentRecord] = {}

    def restore(self, records: Iterable[IncidentRecord]) -> None:
        """Go on with what a run before this one had open: the same trouble is the same incident."""
        for record in records:
            if record.kind in KINDS.values() and record.state == "open":
                self._open[(record.kind, record.server.incarnation.pid)] = record

    def changed(
        self, found: Found, transition: Transition, evidence: Sequence[Evidence] = ()
    ) -> list[IncidentRecord]:
        """A server changed its state; ``evidence`` is what decided."""
        told = self._left(found, transition)
        kind = KINDS.get(transition.new)
        if kind is not None:
            told += self._entered(kind, found, transition, evidence)
        return told

    def ended(self, found: Found) -> list[IncidentRecord]:
        """The server is gone, and whoever waited with it."""
        return [
            self._closed(key, "the server ended")
            for key in list(self._open)
            if key[1] == found.pid and self._is_of(key, found.incarnation)
        ]

    def settle(self, living: Iterable[Found]) -> list[IncidentRecord]:
        """Close what was open for servers that are not there any more (the agent was away)."""
        lives = [found.incarnation for found in living]
        return [
            self._closed(key, "the server ended while nobody watched")
            for key, record in list(self._open.items())
            if not any(life.pid == key[1] and life.same_as(record.server.incarnation) for life in lives)
        ]

    def noted(self, found: Found, evidence: Evidence) -> list[IncidentRecord]:
        """Something was done about it (a release): the action stands in the record."""
        record = self._open.get(("stranded", found.pid))
        if record is None:
            return []
        signs = [*record.signs, evidence][-MAX_SIGNS:]
        return [
            self._put(record.model_copy(update={"signs": signs, "notes": [*record.notes, evidence.text]}))
        ]

    def judged(self, id: str, report: Report | None, attachments: Iterable[str] = ()) -> list[IncidentRecord]:
        """What triage said of one that is open."""
        record = next((each for each in self._open.values() if each.id == id), None)
        if record is None or report is None:
            return []
        update = {
            "verdict": bounded_verdict(report),
            "signature": report.signature,
            "gaps": list(report.gaps[:8]),
            "attachments": sorted({*record.attachments, *attachments}),
        }
        return [self._put(record.model_copy(update=update))]

    def _entered(
        self, kind: str, found: Found, transition: Transition, evidence: Sequence[Evidence]
    ) -> list[IncidentRecord]:
        known = self._open.get((kind, found.pid))
        if known is not None and known.server.incarnation.same_as(found.incarnation):
            return []
        record = IncidentRecord(
            id=incident_id(kind, found.incarnation, f"{transition.mono:.1f}"),
            revision=0,
            kind=kind,
            opened_wall=transition.wall,
            opened_mono=transition.mono,
            revised_wall=transition.wall,
            boot_id=found.incarnation.boot_id,
            server=name_of(found, self._host),
            summary=f"{_who(found)}: {transition.reason}",
            signs=list(evidence[:MAX_SIGNS]),
        )
        return [self._put(record)]

    def _left(self, found: Found, transition: Transition) -> list[IncidentRecord]:
        kind = KINDS.get(transition.old or "")
        key = (kind or "", found.pid)
        if kind is None or KINDS.get(transition.new) == kind or not self._is_of(key, found.incarnation):
            return []
        return [self._closed(key, f"{transition.new}: {transition.reason}")]

    def _is_of(self, key: tuple[str, int | None], who: Incarnation) -> bool:
        record = self._open.get(key)
        return record is not None and record.server.incarnation.same_as(who)

    def _closed(self, key: tuple[str, int | None], why: str) -> IncidentRecord:
        record = self._open[key]
        closed = self._put(record.model_copy(update={"state": "closed", "notes": [*record.notes, why]}))
        del self._open[key]
        return closed

    def _put(self, record: IncidentRecord) -> IncidentRecord:
        update = {"revision": record.revision + 1, "revised_wall": self._clock.wall()}
        stored = record.model_copy(update=update)
        self._open[(stored.kind, stored.server.incarnation.pid)] = stored
        return stored


def _who(found: Found) -> str:
    name = found.place.unit or found.place.container or found.model or found.role
    return f"{name} (process {found.pid})"
