"""What keeps a log, a trace or a supervisor's word from the wrong one of several deaths."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, ExitFact, Fact, LogFact, StackFact, to_evidence
from analyzers.contracts.report import Process
from analyzers.triage.build import Group
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import CoreWork, Material, numbering

next_id = numbering()
PORT = 18080


def said(fact: Fact, pid: int | None = None, wall: float | None = None, text: str = "t") -> Evidence:
    trust = Trust.SERVER if isinstance(fact, (LogFact, StackFact)) else Trust.SUPERVISOR
    who = Incarnation(pid=pid)
    return to_evidence(fact, id=next_id(), source="t:1", text=text, trust=trust, wall=wall, incarnation=who)


def core(pid: int, wall: float, port: int | None = None) -> Material:
    fact = CoreFact(
        signal=11, pid=pid, crashed_tid=pid, instruction_pointer=1, stack_pointer=pid, server=True
    )
    stored = ExitFact("coredump-store", signal=11, result="core-dump")
    return Material(
        evidence=(said(fact, pid), said(stored, pid, wall)),
        process=Process(pid=pid, port=port),
        anchor=True,
        tids=frozenset({pid}),
        core=CoreWork(Path(f"core{pid}"), None),
    )


def log(pid: int | None, began: float, *more: Evidence, stream: str = "") -> Material:
    facts = (LogFact("listening", value=float(PORT)), LogFact("loaded"))
    items = tuple(said(fact, pid, began + at, str(at)) for at, fact in enumerate(facts))
    return Material((*items, *more), lives=(Life(items, "a.log", stream, form="journal"),))


def kinds(groups: list[Group], pid: int) -> list[str]:
    (one,) = [each for each in groups if each.process.pid == pid]
    return sorted(item.kind for item in one.evidence)


@pytest.mark.parametrize(("began", "joins"), [(50.0, True), (500.0, False)])
@pytest.mark.parametrize(("pid", "port"), [(7, None), (None, PORT)])
def test_a_life_that_began_after_the_death_is_not_its_log(
    pid: int | None, port: int | None, began: float, joins: bool
) -> None:
    # GIVEN a log with the PID or the port of a process that died at 100
    groups, _ = group([core(7, 100.0, port), core(8, 200.0, 9999), log(pid, began)])
    assert ("log" in kinds(groups, 7)) is joins
    assert "log" not in kinds(groups, 8)


def test_a_trace_that_a_server_printed_goes_with_its_log() -> None:
    trace = said(StackFact(crashed=True, rung="self-trace"))
    groups, gaps = group([core(7, 100.0), core(8, 900.0), log(7, 50.0, trace)])
    assert kinds(groups, 7) == ["core", "exit", "log", "log", "stack"]
    assert "stack" not in kinds(groups, 8)
    assert gaps == []


@pytest.mark.parametrize(("unit", "joins"), [("llama.service", True), ("postgres.service", False)])
def test_another_units_end_is_not_the_end_of_this_one(unit: str, joins: bool) -> None:
    # GIVEN a death in a unit that its log names, and a unit's failure soon after
    end = Material((said(ExitFact("systemd", code=1, unit=unit), wall=110.0),))
    own = log(7, 50.0, stream="llama.service")
    groups, gaps = group([core(7, 100.0), core(8, 900.0), own, end])
    assert (kinds(groups, 7).count("exit") == 2) is joins
    assert any("do not say to which" in gap.why for gap in gaps) is not joins
