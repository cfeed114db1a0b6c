"""Several folders, each with a core and its log; one core in several files."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, ExitFact, Fact, LogFact, to_evidence
from analyzers.contracts.report import Gap, Process
from analyzers.triage.build import Group
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import CoreWork, Material, numbering

next_id = numbering()


def said(fact: Fact, source: str, pid: int | None = None) -> Evidence:
    trust = Trust.SERVER if isinstance(fact, LogFact) else Trust.KERNEL
    who = Incarnation(pid=pid)
    return to_evidence(fact, id=next_id(), source=source, text="t", trust=trust, incarnation=who)


def core(name: str, pid: int, *more: Fact, ip: int = 1, port: int | None = None) -> Material:
    fact = CoreFact(signal=11, pid=pid, crashed_tid=pid, instruction_pointer=ip, stack_pointer=8, server=True)
    items = tuple(said(one, f"{name}: thread {pid}", pid) for one in (fact, *more))
    process = Process(pid=pid, port=port)
    work = CoreWork(Path(name), None)
    return Material(items, process=process, anchor=True, tids=frozenset({pid}), core=work)


def log(name: str, port: int = 8080) -> Material:
    facts = (LogFact("init"), LogFact("listening", value=float(port)), LogFact("enter-sleep"))
    items = tuple(said(fact, f"{name}:1") for fact in facts)
    return Material(items, lives=(Life(items, name),))


def with_logs(groups: list[Group]) -> dict[int | None, set[str]]:
    """PID -> the sources of the log lines of its incident."""
    return {
        one.process.pid: {item.source for item in one.evidence if item.kind == LogFact.KIND} for one in groups
    }


def dropped(gaps: list[Gap]) -> int:
    return sum("do not say to which of these incidents" in gap.why for gap in gaps)


@pytest.mark.parametrize("port", [None, 8080])
def test_a_core_and_the_only_log_of_its_folder_are_one_death(port: int | None) -> None:
    # GIVEN two folders whose servers took the same port one after the other
    inputs = [core("a/core", 7, port=port), log("a/log"), core("b/core", 8, port=port), log("b/log")]
    groups, gaps = group(inputs)
    assert with_logs(groups) == {7: {"a/log:1"}, 8: {"b/log:1"}}
    assert dropped(gaps) == 0
    # THEN each says that only the folder ties them
    assert all(any("whether" in gap.what and "PID" in gap.why for gap in one.gaps) for one in groups)
    assert with_logs(group(inputs[::-1])[0]) == with_logs(groups)


@pytest.mark.parametrize(
    "names", [("log", "x.log"), ("a/log", "a/more.log"), ("c/log", "d/log"), ("a/in/log", "b/in/log")]
)
def test_logs_of_no_or_another_or_one_folder_with_two_stay_nobodys_and_are_named(
    names: tuple[str, str],
) -> None:
    groups, gaps = group([core("a/core", 7), core("b/core", 8), *(log(name) for name in names)])
    assert with_logs(groups) == {7: set(), 8: set()}
    assert dropped(gaps) == 2


def test_a_folder_does_not_tie_against_the_port() -> None:
    inputs = [core("a/core", 7, port=9001), log("a/log"), core("b/core", 8, port=9002), log("b/log", 9002)]
    groups, gaps = group(inputs)
    assert with_logs(groups) == {7: set(), 8: {"b/log:1"}}
    assert dropped(gaps) == 1


def test_a_copy_of_a_core_is_no_second_death() -> None:
    # GIVEN a core, its packed form of which a record is known, and a log
    stored = ExitFact("coredump-store", signal=11, result="core-dump")
    inputs = [core("core", 7), core("c.zst", 7, stored), log("a.log")]
    for order in (inputs, inputs[::-1]):
        (one,), gaps = group(order)
        assert {item.source.partition(":")[0] for item in one.evidence} == {"c.zst", "a.log"}
        assert [gap.what for gap in gaps if "counted once" in gap.why] == ["core as a death of its own"]


def test_two_cores_of_one_pid_are_two_deaths_whatever_they_share() -> None:
    groups, gaps = group([core("core", 7, ip=1), core("core.2", 7, ip=2)])
    assert len(groups) == 2
    assert not any("counted once" in gap.why for gap in gaps)
