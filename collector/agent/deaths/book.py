"""The book of deaths: opens an incident at the first sign of one, and revises it under the same id."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.incident import IncidentRecord, Restart, ServerName, incident_id
from analyzers.contracts.report import Report, Verdict
from collector.agent.deaths.case import Case
from collector.agent.deaths.identity import identity_of, name_of
from collector.agent.deaths.signs import Sign, end_sign, sign_of
from collector.discovery.model import Ended, Found

# Unit results and journal lines of a death come within a second; from a manager under load in two or three.
EXPLAIN_SECONDS = 5.0
# A status alone is no fault yet where a stop may have been asked for: the manager's word on it is written
# before the end and read a little after.
WORD_SECONDS = 0.7
# A core of a large server is taken in seconds; what comes later still revises the incident.
TRIAGE_AFTER = (2.0, 15.0, 90.0)
SUCCESSOR_SECONDS = 900.0  # systemd's longest customary RestartSec is minutes; a router restarts on request
MAX_CASES = 400


@dataclass(frozen=True)
class Clock:
    """Unix seconds and CLOCK_MONOTONIC; tests put their own in."""

    wall: Callable[[], float] = time.time
    mono: Callable[[], float] = time.monotonic


class DeathBook:
    """Takes signs, gives records. Every call returns the records that it opened or revised."""

    def __init__(self, *, host: str | None = None, clock: Clock | None = None) -> None:
        self._host = host
        self._clock = clock or Clock()
        self._cases: OrderedDict[tuple[object, ...], Case] = OrderedDict()
        self._records: dict[str, IncidentRecord] = {}

    def restore(self, records: Iterable[IncidentRecord]) -> None:
        """Go on with incidents that a run before this one opened; later evidence revises them."""
        for record in records:
            self._records[record.id] = record
            if record.kind not in ("death", "restart-unexplained"):
                continue
            case = Case(record.server.incarnation, incident=record.id, opened_wall=record.opened_wall)
            case.revision = record.revision
            for sign in filter(None, map(sign_of, record.signs)):
                case.add(sign)
            case.over_mono = self._clock.mono()
            if record.state == "closed":  # judged; judged again only when more is learnt
                case.judgements, case.judged_signs = 1, len(case.signs)
            self._cases[_key(record.server.incarnation)] = case

    def evidence(self, evidence: Evidence, found: Found | None = None) -> list[IncidentRecord]:
        """A fact of any kind about ``found``, or about a process that discovery never met (a core record)."""
        sign = sign_of(evidence)
        if sign is None:
            return []
        who = found.incarnation if found is not None else evidence.incarnation
        if who.pid is None:
            return []
        return self._take(self._case(who, found), sign)

    def ended(self, ended: Ended) -> list[IncidentRecord]:
        """A process is gone."""
        return self._take(self._case(ended.found.incarnation, ended.found), end_sign(ended))

    def born(self, found: Found) -> list[IncidentRecord]:
        """A server started: if it is another one's successor, that one's restart is known now."""
        name, now = identity_of(found), self._clock.mono()
        for case in reversed(self._cases.values()):
            if case.found is None or case.successor is not None or case.over_mono is None:
                continue
            if now - case.over_mono > SUCCESSOR_SECONDS or identity_of(case.found) != name:
                continue
            if case.incarnation.same_as(found.incarnation):
                continue
            case.successor = found.incarnation
            return self._revised(case)
        return []

    @property
    def waits(self) -> bool:
        """An end is about to be told: call ``tick`` before a second has passed."""
        return any(
            case.incident is None and case.by_status_alone and self._too_soon(case)
            for case in reversed(self._cases.values())
        )

    def tick(self) -> list[IncidentRecord]:
        """What time alone makes known: an end that nobody asked for, a restart that nothing explains."""
        now, told = self._clock.mono(), []
        for case in self._cases.values():
            if case.incident is not None or case.over_mono is None:
                continue
            if case.fault and not self._too_soon(case):
                told += self._open(case, "death")
            elif self._unexplained(case, now):
                told += self._open(case, "restart-unexplained")
        return told

    def due(self) -> list[Case]:
        """Deaths whose evidence is to be judged now: some seconds after the end, and again when more came."""
        now = self._clock.mono()
        return [case for case in self._cases.values() if _is_due(case, now)]

    def judged(
        self, case: Case, report: Report | None, attachments: Iterable[str] = ()
    ) -> list[IncidentRecord]:
        """What triage said of ``case``; None when it could not be run."""
        case.judgements += 1
        case.judged_signs = len(case.signs)
        record = self._records.get(case.incident or "")
        if report is None or record is None:
            return []
        group = report.incidents[0].key if report.incidents else report.signature.bug_key
        return self._put(
            case,
            record.model_copy(
                update={
                    "verdict": bounded_verdict(report),
                    "signature": report.signature,
                    "group": group,
                    "summary": report.verdict.summary or record.summary,
                    "gaps": list(report.gaps[:8]),
                    "attachments": sorted({*record.attachments, *attachments}),
                }
            ),
        )

    def case_of(self, incarnation: Incarnation) -> Case | None:
        """The case of one life, if any sign of its end was seen."""
        return self._cases.get(_key(incarnation))

    def record_of(self, case: Case) -> IncidentRecord | None:
        """The incident of a case, as it was told last."""
        return self._records.get(case.incident or "")

    def _case(self, who: Incarnation, found: Found | None) -> Case:
        case = self._cases.get(_key(who)) or self._same_life(who)
        if case is None:
            case = Case(who, found, opened_wall=self._clock.wall(), opened_mono=self._clock.mono())
            self._cases[_key(who)] = case
            while len(self._cases) > MAX_CASES:
                self._forget(self._cases.popitem(last=False)[1])
        if case.found is None and found is not None:
            case.found = found
        return case

    def _same_life(self, who: Incarnation) -> Case | None:
        """A core record names no start time: the newest case of that PID and boot is meant."""
        if who.start_time is not None:
            return None
        return next((case for case in reversed(self._cases.values()) if who.same_as(case.incarnation)), None)

    def _forget(self, case: Case) -> None:
        if case.incident is not None:
            self._records.pop(case.incident, None)

    def _take(self, case: Case, sign: Sign) -> list[IncidentRecord]:
        if not case.add(sign):
            return []
        if sign.over and case.over_mono is None:
            case.over_mono = self._clock.mono()
        if case.incident is None:
            return self._open(case, "death") if case.fault and not self._too_soon(case) else []
        return self._revised(case)

    def _too_soon(self, case: Case) -> bool:
        """Whether the manager may yet say that it asked for this end."""
        if not case.by_status_alone or case.over_mono is None:
            return False
        return self._clock.mono() - case.over_mono < WORD_SECONDS

    def _unexplained(self, case: Case, now: float) -> bool:
        if case.over_mono is None or case.successor is None or case.fault is not None:
            return False
        return now - case.over_mono >= EXPLAIN_SECONDS

    def _open(self, case: Case, kind: str) -> list[IncidentRecord]:
        id = incident_id("death", case.incarnation)
        case.incident = id
        record = self._records.get(id) or IncidentRecord(
            id=id,
            revision=0,
            kind=kind,
            opened_wall=self._clock.wall(),
            opened_mono=self._clock.mono(),
            revised_wall=self._clock.wall(),
            boot_id=case.incarnation.boot_id,
            server=self._server(case),
        )
        case.revision = record.revision
        return self._put(case, self._filled(case, record))

    def _revised(self, case: Case) -> list[IncidentRecord]:
        record = self._records.get(case.incident or "")
        return [] if record is None else self._put(case, self._filled(case, record))

    def _filled(self, case: Case, record: IncidentRecord) -> IncidentRecord:
        kind = "death" if case.fault else record.kind
        words = case.summary() if record.verdict is None else record.summary
        return record.model_copy(
            update={
                "kind": kind,
                "server": self._server(case),
                "summary": words,
                "signs": case.evidence(),
                "restart": self._restart(case),
                "notes": _notes(case),
            }
        )

    def _put(self, case: Case, record: IncidentRecord) -> list[IncidentRecord]:
        case.revision += 1
        stored = record.model_copy(
            update={"revision": case.revision, "revised_wall": self._clock.wall(), "state": _state(case)}
        )
        self._records[stored.id] = stored
        return [stored]

    def _server(self, case: Case) -> ServerName:
        if case.found is not None:
            return name_of(case.found, self._host)
        unit = next(
            (sign.evidence.data.get("unit") for sign in case.signs if sign.evidence.data.get("unit")), None
        )
        return ServerName(host=self._host, unit=unit, incarnation=case.incarnation)

    def _restart(self, case: Case) -> Restart | None:
        limit = any(sign.what == "limit" for sign in case.signs)
        if case.successor is None and not limit:
            return None
        return Restart(
            wall=self._clock.wall() if case.successor is not None else None,
            incarnation=case.successor or Incarnation(),
            reason=_reason(case),
            limit_hit=limit,
        )


def _reason(case: Case) -> str:
    if any(sign.what == "restart" for sign in case.signs):
        return "supervisor"
    if case.found is not None and case.found.role == "child":
        return "router"
    return "planned" if case.asked and not case.fault else "unknown"


def _state(case: Case) -> str:
    settled = case.judgements > 0 and case.judged_signs == len(case.signs)
    return "closed" if settled or case.judgements >= len(TRIAGE_AFTER) else "open"


def _notes(case: Case) -> list[str]:
    return [f"{case.dropped} more facts about this end were left out"] if case.dropped else []


def _is_due(case: Case, now: float) -> bool:
    if case.incident is None or case.over_mono is None or case.judgements >= len(TRIAGE_AFTER):
        return False
    if case.judgements > 0 and case.judged_signs == len(case.signs):
        return False
    return now - case.over_mono >= TRIAGE_AFTER[case.judgements]


def _key(who: Incarnation) -> tuple[object, ...]:
    boot = (who.boot_id or "").replace("-", "").lower()
    return (boot, who.pid, None if who.start_time is None else round(who.start_time, 2))


def bounded_verdict(report: Report) -> Verdict:
    """The verdict without its evidence: that stands in the report, which is an attachment."""
    return report.verdict.model_copy(update={"evidence": [], "advice": report.verdict.advice[:5]})
