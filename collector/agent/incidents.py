"""Deaths, loops, strands and hangs together: what opens an incident, what revises it, who judges it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.facts import CoreFact
from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox_read import open_reading
from analyzers.contracts.watched import LookFact
from analyzers.errors import UserError
from collector.agent.deaths.book import Clock, DeathBook
from collector.agent.deaths.case import Case
from collector.agent.deaths.identity import identity_of
from collector.agent.deaths.judging import Judge, Judged, Material
from collector.agent.deaths.loops import LoopBook
from collector.agent.deaths.request import Left, left_by
from collector.agent.deaths.signs import sign_of
from collector.agent.states.model import Transition
from collector.agent.troubles import TroubleBook
from collector.discovery.model import Ended, Found
from collector.outbox.write import NewAttachment

MAX_EVIDENCE = 2000  # facts of one life that a judgement is based on; the ring holds no more of most
MAX_LEFT = 500  # servers whose leavings are remembered
_KINDS = {"report.json": "report", "bundle.tar.zst": "bundle"}


class Incidents:
    """Every call returns the records that it opened or revised. ``outbox`` is the folder that evidence is
    read back from for a judgement."""

    def __init__(
        self,
        outbox: Path,
        *,
        host: str | None,
        captures: Path | None = None,
        clock: Clock | None = None,
        judge: Judge | None = None,
    ) -> None:
        self._outbox = outbox
        self.deaths = DeathBook(host=host, clock=clock)
        self.loops = LoopBook(clock)
        self.troubles = TroubleBook(host=host, clock=clock)
        self._judge = judge or Judge(outbox)
        self._cases: dict[str, Case] = {}
        self._strands: set[str] = set()
        self._left: OrderedDict[tuple[int | None, float | None], Left] = OrderedDict()
        self._captures = captures
        self.problems: list[str] = []

    def restore(self, records: Sequence[IncidentRecord]) -> None:
        """Go on where the run before this one ended."""
        self.deaths.restore(records)
        self.troubles.restore(records)

    def evidence(self, evidence: Evidence, found: Found | None) -> list[IncidentRecord]:
        """One fact, of a server that is known or of none."""
        if found is None and not _speaks_of_a_server(evidence):
            return []
        sign = sign_of(evidence)
        if sign is None:
            return []
        told = self._with_loops(self.deaths.evidence(evidence, found))
        if sign.what == "limit" and found is not None:
            case = self.deaths.case_of(found.incarnation)
            told += self.loops.gave_up(identity_of(found), self._record(case) or _last(told))
        return told

    def dumping(self, found: Found, evidence: Evidence) -> list[IncidentRecord]:
        """The kernel writes a server's core: the first sign of most deaths."""
        return self._with_loops(self.deaths.evidence(evidence, found))

    def ended(self, ended: Ended) -> list[IncidentRecord]:
        """A server is gone."""
        return [*self._with_loops(self.deaths.ended(ended)), *self.troubles.ended(ended.found)]

    def born(self, found: Found) -> list[IncidentRecord]:
        """A server came: what it will leave behind can only be looked up while it lives."""
        self._left[_life(found.incarnation)] = left_by(found.pid, found.log_file)
        while len(self._left) > MAX_LEFT:
            self._left.popitem(last=False)
        return self.deaths.born(found)

    def changed(
        self, found: Found, transition: Transition, evidence: Sequence[Evidence]
    ) -> list[IncidentRecord]:
        """A server's state is another one."""
        told = self.troubles.changed(found, transition, evidence)
        for record in told:
            if record.state == "open":
                self._strands.add(record.id)
                self._judge.take(record.id, self._material(found.incarnation, found, evidence))
        return told

    def tick(self) -> tuple[list[IncidentRecord], list[NewAttachment]]:
        """What time alone makes known. Judgements that are due are begun, those that are done taken in."""
        told = self._with_loops(self.deaths.tick())
        for case in self.deaths.due():
            if case.incident is not None and case.incident not in self._judge.busy:
                self._cases[case.incident] = case
                self._judge.take(case.incident, self._of_death(case))
        files: list[NewAttachment] = []
        for id, judged in self._judge.done():
            records, more = self._judged(id, judged)
            told += records
            files += more
        return told, files

    @property
    def busy(self) -> bool:
        """A judgement is under way, or an end about to be told."""
        return bool(self._judge.busy) or self.deaths.waits

    def close(self) -> None:
        """Judge no more."""
        self._judge.close()

    def _judged(self, id: str, judged: Judged) -> tuple[list[IncidentRecord], list[NewAttachment]]:
        if judged.problem is not None:
            self.problems = [*self.problems, judged.problem][-4:]
        files = [
            NewAttachment(id, name, _KINDS.get(name, "file"), data) for name, data in judged.files.items()
        ]
        names = [each.name for each in files]
        if id in self._strands:
            self._strands.discard(id)
            records = self.troubles.judged(id, judged.report, names)
            return records, files if records else []
        case = self._cases.pop(id, None)
        return (self.deaths.judged(case, judged.report, names) if case is not None else []), files

    def _with_loops(self, records: list[IncidentRecord]) -> list[IncidentRecord]:
        told = list(records)
        for record in records:
            case = self.deaths.case_of(record.server.incarnation)
            if record.kind == "death" and case is not None and case.found is not None:
                told += self.loops.died(identity_of(case.found), record)
        return told

    def _record(self, case: Case | None) -> IncidentRecord | None:
        return self.deaths.record_of(case) if case is not None else None

    def _of_death(self, case: Case) -> Material:
        left = self._left.get(_life(case.incarnation), Left())
        return replace(
            self._material(case.incarnation, case.found, [sign.evidence for sign in case.signs]),
            wall=case.wall,
            signal=case.signal,
            folder=left.folder,
            logs=left.logs,
            store=str(self._captures) if self._captures is not None else None,
        )

    def _material(self, who: Incarnation, found: Found | None, evidence: Sequence[Evidence]) -> Material:
        """Everything that the outbox holds about this life, and what was told just now."""
        kept: list[Evidence] = []
        try:
            with open_reading(self._outbox) as reader:
                kept = reader.evidence_of(who, MAX_EVIDENCE)
        except UserError as error:
            self.problems = [*self.problems, str(error)][-4:]
        known = {item.id for item in kept}
        facts = [*kept, *(item for item in evidence if item.id not in known)]
        return Material(who, found, tuple(item for item in facts if item.kind != "gap"))


def _life(who: Incarnation) -> tuple[int | None, float | None]:
    return (who.pid, who.start_time)


def _last(records: Iterable[IncidentRecord]) -> IncidentRecord | None:
    return next((record for record in reversed(list(records)) if record.kind == "death"), None)


def _speaks_of_a_server(evidence: Evidence) -> bool:
    """Whether a fact about a process that discovery never met is about a llama-server: a core record or a
    capture whose program is one. Any other program's death is none of our business."""
    from collector.gather.servers import PROGRAM

    if evidence.kind == CoreFact.KIND and evidence.data.get("capture"):
        return True  # the store takes nothing else
    name = str(evidence.data.get("name") or evidence.data.get("program") or "")
    return bool(PROGRAM.search(name)) and evidence.kind != LookFact.KIND
