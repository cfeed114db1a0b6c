"""The book of deaths: one incident per death, opened at the first sign, its id unchanged by later facts."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import AbortFact, CoreFact, ExitFact, KernelFact, LogFact, to_evidence
from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.report import Report, Tool, Verdict
from analyzers.contracts.watched import LookFact
from collector.agent.deaths.book import EXPLAIN_SECONDS, TRIAGE_AFTER, WORD_SECONDS, Clock, DeathBook
from collector.agent.deaths.loops import LOOP_DEATHS, LOOP_SECONDS, LoopBook
from collector.discovery.model import Ended, Found, Listening, Place

BOOT = "0123456789abcdef0123456789abcdef"


@dataclass
class Time:
    now: float = 1000.0

    def clock(self) -> Clock:
        return Clock(wall=lambda: 1_700_000_000 + self.now, mono=lambda: self.now)


@dataclass
class Scene:
    time: Time = field(default_factory=Time)
    counter: int = 0

    def __post_init__(self) -> None:
        self.book = DeathBook(host="h", clock=self.time.clock())

    def fact(self, fact: Any, trust: Trust, pid: int | None = 7, mono: float | None = None) -> Evidence:
        self.counter += 1
        return to_evidence(
            fact,
            id=f"e{self.counter}",
            source="test",
            text=type(fact).__name__,
            trust=trust,
            wall=self.time.now,
            mono=self.time.now if mono is None else mono,
            incarnation=Incarnation(pid=pid, boot_id=BOOT),
        )

    def end(self, found: Found, *, sig: int | None = None, code: int | None = None) -> list[IncidentRecord]:
        return self.book.ended(Ended(found, 1_700_000_000 + self.time.now, self.time.now, code, sig))


def server(pid: int = 7, start: float = 1.0, **more: Any) -> Found:
    values: dict[str, Any] = {
        "role": "standalone",
        "listening": (Listening(port=8080),),
        "place": Place(unit="llama.service"),
    }
    return Found(
        Incarnation(pid=pid, start_time=start, boot_id=BOOT), "/usr/bin/llama-server", **{**values, **more}
    )


@pytest.fixture
def scene() -> Scene:
    return Scene()


FATAL: list[tuple[Any, Trust]] = [
    (LookFact(dumping=True), Trust.KERNEL),
    (KernelFact(shape="segfault", tid=9), Trust.KERNEL),
    (KernelFact(shape="gpf"), Trust.KERNEL),
    (KernelFact(shape="oom-kill"), Trust.KERNEL),
    (ExitFact(by="systemd", signal=11, unit="llama.service"), Trust.SUPERVISOR),
    (ExitFact(by="systemd", code=1, unit="llama.service"), Trust.SUPERVISOR),
    (ExitFact(by="systemd", result="watchdog", unit="llama.service"), Trust.SUPERVISOR),
    (ExitFact(by="systemd", result="timeout", unit="llama.service"), Trust.SUPERVISOR),
    (ExitFact(by="systemd", result="core-dump", signal=6, name="llama-server"), Trust.SUPERVISOR),
    (ExitFact(by="docker", code=139), Trust.SUPERVISOR),
    (CoreFact(signal=11), Trust.KERNEL),
]


@pytest.mark.parametrize(("fact", "trust"), FATAL)
def test_the_first_sign_of_a_death_opens_one_incident(scene, fact, trust):
    opened = scene.book.evidence(scene.fact(fact, trust), server())
    scene.time.now += WORD_SECONDS
    opened += scene.book.tick()
    assert [(record.kind, record.revision) for record in opened] == [("death", 1)]
    assert opened[0].server.unit == "llama.service"


INNOCENT: list[tuple[Any, Trust]] = [
    (AbortFact(shape="ggml-assert"), Trust.SERVER),
    (LogFact(event="stopping"), Trust.SERVER),
    (LogFact(event="enter-sleep"), Trust.SERVER),
    (ExitFact(by="systemd", result="stopping", requested=True), Trust.SUPERVISOR),
    (ExitFact(by="systemd", result="success"), Trust.SUPERVISOR),
    (ExitFact(by="systemd", result="scheduled-restart"), Trust.SUPERVISOR),
    (ExitFact(by="systemd", code=0), Trust.SUPERVISOR),
    (ExitFact(by="systemd", signal=int(signal.SIGTERM)), Trust.SUPERVISOR),
    (ExitFact(by="docker", code=143), Trust.SUPERVISOR),
    (KernelFact(shape="other"), Trust.KERNEL),
    (LookFact(state="S"), Trust.KERNEL),
]


@pytest.mark.parametrize(("fact", "trust"), INNOCENT)
def test_what_is_no_death_opens_none(scene, fact, trust):
    assert scene.book.evidence(scene.fact(fact, trust), server()) == []
    scene.time.now += 100
    assert scene.book.tick() == []


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_that_was_asked_for_is_no_incident(scene, sig):
    assert scene.end(server(), sig=int(sig)) == []
    assert scene.book.born(server(8, 50.0)) == []
    scene.time.now += EXPLAIN_SECONDS + 1
    assert scene.book.tick() == []


@pytest.mark.parametrize("late", [False, True])
def test_a_status_after_a_stop_of_the_supervisor_is_no_incident_and_without_it_one(scene, late):
    stopping = scene.fact(ExitFact(by="systemd", result="stopping"), Trust.SUPERVISOR)
    told = [] if late else scene.book.evidence(stopping, server())
    told += scene.end(server(), code=1)
    assert not told
    if late:  # the journal hands the manager's word on after the end was seen
        scene.book.evidence(stopping, server())
    scene.time.now += WORD_SECONDS
    assert scene.book.tick() == []

    other = Scene()
    assert other.end(server(), code=1) == []
    assert other.book.waits
    other.time.now += WORD_SECONDS
    assert [record.kind for record in other.book.tick()] == ["death"]
    assert not other.book.waits


def test_a_crash_while_stopping_is_an_incident(scene):
    scene.book.evidence(scene.fact(ExitFact(by="systemd", result="stopping"), Trust.SUPERVISOR), server())
    assert [record.kind for record in scene.end(server(), sig=6)] == ["death"]


def test_a_line_of_the_log_cannot_turn_a_seen_crash_into_a_stop(scene):
    # GIVEN a prompt that makes the server print what it prints when it stops
    scene.book.evidence(scene.fact(LogFact(event="stopping"), Trust.CLIENT), server())
    # WHEN it crashes
    assert [record.kind for record in scene.end(server(), sig=11)] == ["death"]


def test_all_signs_of_one_death_are_one_incident_under_one_id(scene):
    found = server()
    records = scene.book.evidence(scene.fact(KernelFact(shape="segfault"), Trust.KERNEL), found)
    records += scene.book.evidence(scene.fact(LookFact(dumping=True), Trust.KERNEL), found)
    records += scene.end(found, sig=11)
    records += scene.book.evidence(
        scene.fact(ExitFact(by="systemd", signal=11, unit="llama.service"), Trust.SUPERVISOR), found
    )
    # a core record names PID and boot, no start time, and comes without a server
    record = ExitFact(by="systemd", result="core-dump", signal=11, name="llama-server")
    records += scene.book.evidence(scene.fact(record, Trust.SUPERVISOR))
    assert len({each.id for each in records}) == 1
    assert [each.revision for each in records] == [1, 2, 3, 4, 5]
    assert len(records[-1].signs) == 5
    assert "SIGSEGV" in records[-1].summary


def test_the_same_fact_twice_revises_nothing(scene):
    item = scene.fact(KernelFact(shape="segfault"), Trust.KERNEL)
    assert len(scene.book.evidence(item, server())) == 1
    assert scene.book.evidence(item, server()) == []


def test_a_pid_used_again_is_another_death(scene):
    first = scene.end(server(7, 1.0), sig=11)
    second = scene.end(server(7, 90.0), sig=11)
    assert first[0].id != second[0].id


def test_a_restart_says_its_reason(scene):
    scene.end(server(), sig=11)
    scene.book.evidence(
        scene.fact(ExitFact(by="systemd", result="scheduled-restart"), Trust.SUPERVISOR), server()
    )
    revised = scene.book.born(server(8, 5.0))
    assert revised[-1].restart is not None
    assert revised[-1].restart.reason == "supervisor"
    assert revised[-1].restart.incarnation.pid == 8


def test_a_router_restarts_its_child(scene):
    child = server(role="child", model="m", parent=Incarnation(pid=3, boot_id=BOOT))
    scene.end(child, sig=11)
    other = replace(child, incarnation=Incarnation(pid=9, start_time=4.0, boot_id=BOOT), model="other")
    assert scene.book.born(other) == []
    again = replace(child, incarnation=Incarnation(pid=8, start_time=4.0, boot_id=BOOT))
    assert scene.book.born(again)[-1].restart.reason == "router"


def test_a_restart_that_nothing_explains_is_named_after_a_while(scene):
    scene.end(server())  # gone, and nobody saw how
    scene.book.born(server(8, 5.0))
    assert scene.book.tick() == []
    scene.time.now += EXPLAIN_SECONDS
    named = scene.book.tick()
    assert [record.kind for record in named] == ["restart-unexplained"]
    # WHEN the explanation comes late, it is the same incident, and a death now
    late = scene.book.evidence(scene.fact(ExitFact(by="systemd", signal=11), Trust.SUPERVISOR), server())
    assert [(record.id, record.kind) for record in late] == [(named[0].id, "death")]


def test_a_server_that_is_gone_and_not_restarted_is_no_incident_by_itself(scene):
    scene.end(server())
    scene.time.now += 100
    assert scene.book.tick() == []


def test_a_stop_told_by_the_log_explains_an_end_that_nobody_saw_and_only_a_fresh_one(scene):
    scene.book.evidence(scene.fact(LogFact(event="stopping"), Trust.SERVER), server())
    scene.time.now += 3
    scene.end(server())
    scene.book.born(server(8, 5.0))
    scene.time.now += EXPLAIN_SECONDS
    assert scene.book.tick() == []

    old = Scene()
    old.book.evidence(old.fact(LogFact(event="stopping"), Trust.SERVER), server())
    old.time.now += 500
    old.end(server())
    old.book.born(server(8, 5.0))
    old.time.now += EXPLAIN_SECONDS
    assert [record.kind for record in old.book.tick()] == ["restart-unexplained"]


def unit_step(scene: Scene, **data: Any) -> Evidence:
    made = scene.fact(LogFact(), Trust.SUPERVISOR)
    return made.model_copy(update={"kind": "unit", "data": {"unit": "llama.service", **data}})


@pytest.mark.parametrize("result", ["watchdog", "oom-kill", "timeout"])
def test_a_unit_that_failed_by_its_manager_s_doing_is_a_death(scene, result):
    opened = scene.book.evidence(unit_step(scene, event="failed", result=result), server())
    assert [record.kind for record in opened] == ["death"]


@pytest.mark.parametrize("event", ["starting", "started", "stopped", "status", "restarted"])
def test_a_step_of_a_unit_s_life_is_no_death(scene, event):
    assert scene.book.evidence(unit_step(scene, event=event), server()) == []


def report(summary: str = "s") -> Report:
    verdict = Verdict.model_validate({"class": "SEGV", "summary": summary})
    return Report(tool=Tool(version="1", catalogue="1"), verdict=verdict)


def test_a_death_is_judged_after_its_end_and_again_only_for_new_facts(scene):
    found = server()
    scene.book.evidence(scene.fact(KernelFact(shape="segfault"), Trust.KERNEL), found)
    scene.time.now += 100
    assert scene.book.due() == []  # dying still
    scene.end(found, sig=11)
    assert scene.book.due() == []
    scene.time.now += TRIAGE_AFTER[0]
    (case,) = scene.book.due()
    judged = scene.book.judged(case, report("it crashed"), ["report.json"])
    assert judged[0].state == "closed"
    assert judged[0].summary == "it crashed"
    assert judged[0].attachments == ["report.json"]
    scene.time.now += 1000
    assert scene.book.due() == []
    scene.book.evidence(scene.fact(CoreFact(signal=11), Trust.KERNEL), found)
    assert scene.book.due() == [case]


def test_a_restarted_agent_goes_on_with_the_incident(scene):
    (opened,) = scene.end(server(), sig=11)
    later = Scene()
    later.book.restore([opened])
    revised = later.book.evidence(later.fact(CoreFact(signal=11), Trust.KERNEL))
    assert [(record.id, record.revision) for record in revised] == [(opened.id, opened.revision + 1)]


def test_a_flood_of_signs_stays_small(scene):
    found = server()
    scene.end(found, sig=11)
    for _ in range(2000):
        scene.book.evidence(scene.fact(AbortFact(message="x" * 200), Trust.CLIENT), found)
    (last,) = scene.book.evidence(scene.fact(CoreFact(), Trust.KERNEL), found) or [
        scene.book._records[scene.book.case_of(found.incarnation).incident]
    ]
    assert len(last.model_dump_json()) < 20_000


def test_three_deaths_in_a_row_are_a_loop_and_two_are_not(scene):
    loops = LoopBook(scene.time.clock())
    told = []
    for number in range(LOOP_DEATHS + 2):
        scene.time.now += 5
        (death,) = scene.end(server(10 + number, 10.0 + number), sig=11)
        told.append(loops.died("llama.service", death))
    assert [len(each) for each in told] == [0] * (LOOP_DEATHS - 1) + [1] * 3
    assert len({each[0].id for each in told if each}) == 1
    assert told[-1][0].kind == "crash-loop"
    assert len(told[-1][0].deaths) == LOOP_DEATHS + 2


def test_deaths_far_apart_are_no_loop(scene):
    loops = LoopBook(scene.time.clock())
    for number in range(6):
        scene.time.now += LOOP_SECONDS + 1
        (death,) = scene.end(server(10 + number, 10.0 + number), sig=11)
        assert loops.died("llama.service", death) == []


def test_deaths_of_different_servers_are_no_loop(scene):
    loops = LoopBook(scene.time.clock())
    for number in range(6):
        (death,) = scene.end(server(10 + number, 10.0 + number), sig=11)
        assert loops.died(f"unit {number}", death) == []


def test_the_supervisor_that_gives_up_is_named_once(scene):
    loops = LoopBook(scene.time.clock())
    (death,) = scene.end(server(), sig=11)
    loops.died("llama.service", death)
    (loop,) = loops.gave_up("llama.service", death)
    assert loop.restart.limit_hit
    assert "starts it no more" in loop.summary
    assert loops.gave_up("llama.service", death) == []
