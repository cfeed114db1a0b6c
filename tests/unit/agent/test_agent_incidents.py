"""What opens and judges incidents together: deaths and loops, troubles, and facts of processes never met."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from agent_builder import BOOT, Time, fact, server

from analyzers.contracts.evidence import Incarnation, Trust
from analyzers.contracts.facts import CoreFact, ExitFact, KernelFact, LogFact
from analyzers.contracts.report import Report, Tool, Verdict
from collector.agent.deaths.book import TRIAGE_AFTER
from collector.agent.deaths.judging import Judge, Judged, Material
from collector.agent.incidents import Incidents
from collector.agent.states.model import Transition
from collector.discovery.model import Ended
from collector.outbox.store import open_store
from collector.outbox.write import Write, Yielded

REPORT = Report(
    tool=Tool(version="1", catalogue="1"), verdict=Verdict.model_validate({"class": "SEGV", "summary": "s"})
)


@dataclass
class Judging(Judge):
    """Judges at once, and remembers what it was given."""

    outcome: Judged = field(default_factory=lambda: Judged(REPORT, {"report.json": b"{}"}))
    given: list[tuple[str, Material]] = field(default_factory=list)

    @property
    def busy(self) -> frozenset[str]:
        return frozenset()

    def take(self, incident: str, material: Material) -> None:
        self.given.append((incident, material))

    def done(self) -> list[tuple[str, Judged]]:
        taken, self.given = self.given, []
        self.seen = [*getattr(self, "seen", []), *taken]
        return [(name, self.outcome) for name, _ in taken]

    def close(self) -> None:
        return None


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def judge() -> Judging:
    return Judging()


@pytest.fixture
def incidents(tmp_path: Path, time: Time, judge: Judging) -> Incidents:
    open_store(tmp_path / "outbox").close()
    return Incidents(tmp_path / "outbox", host="h", clock=time.clock(), judge=judge)


def crash(time: Time, pid: int = 7, start: float = 1.0) -> Ended:
    return Ended(server(pid, start), time.wall(), time.mono(), None, 11)


def test_a_death_is_judged_and_its_report_attached(incidents, judge, time):
    (opened,) = incidents.ended(crash(time))
    assert incidents.tick() == ([], [])
    time.now += TRIAGE_AFTER[0]
    records, files = incidents.tick()
    assert [(record.id, record.state, record.summary) for record in records] == [(opened.id, "closed", "s")]
    assert [(each.incident, each.name, each.kind) for each in files] == [(opened.id, "report.json", "report")]
    ((_, material),) = judge.seen
    assert material.wall == pytest.approx(1_700_000_000 + 1000.0)
    assert material.signal == 11


def test_what_the_outbox_holds_of_that_life_is_judged_and_of_another_is_not(tmp_path, judge, time):
    store = open_store(tmp_path / "outbox")
    mine, other = fact(LogFact(event="enter-sleep"), Trust.SERVER), fact(LogFact(), Trust.SERVER, pid=8)
    store.commit(Write(yields=(Yielded("s", "1", (mine, other)),)))
    incidents = Incidents(tmp_path / "outbox", host=None, clock=time.clock(), judge=judge)
    incidents.ended(crash(time))
    time.now += TRIAGE_AFTER[0]
    incidents.tick()
    ((_, material),) = judge.seen
    assert [item.id for item in material.evidence if item.kind == "log"] == [mine.id]
    store.close()


def test_a_judgement_that_fails_is_a_problem_and_the_incident_stays(incidents, judge, time):
    judge.outcome = Judged(None, {}, "triage ended with status 2")
    incidents.ended(crash(time))
    time.now += TRIAGE_AFTER[0]
    assert incidents.tick() == ([], [])
    assert incidents.problems == ["triage ended with status 2"]


def test_three_deaths_of_one_server_are_three_incidents_and_a_loop(incidents, time):
    told = []
    for number in range(3):
        time.now += 5
        told += incidents.ended(crash(time, 10 + number, 10.0 + number))
    assert [record.kind for record in told] == ["death", "death", "death", "crash-loop"]


@pytest.mark.parametrize("name", ["llama-server", "llama-server-cu"])
def test_a_core_record_of_a_server_that_was_never_met_is_an_incident(incidents, name):
    record = ExitFact(by="systemd", result="core-dump", signal=11, name=name)
    told = incidents.evidence(fact(record, Trust.SUPERVISOR), None)
    assert [record.kind for record in told] == ["death"]


@pytest.mark.parametrize(
    "payload",
    [
        ExitFact(by="systemd", result="core-dump", signal=11, name="firefox"),
        ExitFact(by="systemd", signal=11, unit="llama.service"),
        KernelFact(shape="segfault", tid=7, name="firefox"),
        CoreFact(signal=11, program="python3"),
    ],
)
def test_another_program_s_death_is_none_of_our_business(incidents, payload):
    assert incidents.evidence(fact(payload, Trust.SUPERVISOR), None) == []


def test_a_capture_is_always_a_server_s(incidents):
    captured = fact(CoreFact(signal=11, pid=7))
    captured = captured.model_copy(update={"data": {**captured.data, "capture": "c"}})
    assert [record.kind for record in incidents.evidence(captured, None)] == ["death"]


def test_a_stranded_server_is_judged_at_once(incidents, judge):
    moved = Transition("asleep", "stranded", 1.0, 2.0, "a client waits")
    (opened,) = incidents.changed(server(), moved, [])
    records, files = incidents.tick()
    assert [record.id for record in records] == [opened.id]
    assert [each.name for each in files] == ["report.json"]


def test_a_run_goes_on_with_the_incidents_of_the_one_before(incidents, tmp_path, time, judge):
    (opened,) = incidents.ended(crash(time))
    again = Incidents(tmp_path / "outbox", host="h", clock=time.clock(), judge=judge)
    again.restore([opened])
    who = Incarnation(pid=7, boot_id=BOOT)
    late = fact(CoreFact(signal=11, program="llama-server")).model_copy(update={"incarnation": who})
    (revised,) = again.evidence(late, None)
    assert (revised.id, revised.revision) == (opened.id, 2)
