"""A log that names no process beside a core: what its port excludes, and what only the user's word ties."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, Fact, LogFact, to_evidence
from analyzers.contracts.report import Process
from analyzers.triage.build import Group
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import CoreWork, Material, numbering

next_id = numbering()
HOSTED = ["python", "/srv/own.py", "/m/x.gguf", "18729", "1"]


def said(fact: Fact, pid: int | None = None, elapsed: float | None = None) -> Evidence:
    trust = Trust.SERVER if isinstance(fact, LogFact) else Trust.KERNEL
    who = Incarnation(pid=pid)
    return to_evidence(
        fact, id=next_id(), source="t:1", text="t", trust=trust, elapsed=elapsed, incarnation=who
    )


def core(port: int | None = None, args: list[str] | None = None) -> Material:
    fact = CoreFact(signal=11, pid=7, crashed_tid=7, instruction_pointer=1, stack_pointer=7, server=True)
    process = Process(pid=7, port=port, args=args or [])
    work = CoreWork(Path("core"), None)
    return Material((said(fact, 7),), process=process, anchor=True, tids=frozenset({7}), core=work)


def life(port: int | None, pid: int | None = None, *, slept: bool = True) -> Life:
    facts = [LogFact("init"), LogFact("loaded")]
    facts += [LogFact("listening", value=float(port))] if port else []
    facts += [LogFact("enter-sleep"), LogFact("exit-sleep")] if slept else []
    return Life(tuple(said(fact, pid, float(at)) for at, fact in enumerate(facts)), "a.log")


def log(*lives: Life) -> Material:
    return Material(tuple(item for one in lives for item in one.items), lives=lives)


def whys(one: Group, loose: list[object]) -> str:
    return "\n".join(getattr(gap, "why", "") for gap in (*one.gaps, *loose))


def joined(*materials: Material) -> tuple[Group, str, bool]:
    """The one incident, its gaps, and whether a sleep line of the log counts in it."""
    (one,), loose = group(list(materials))
    slept = [item for item in one.evidence if item.data.get("event") == "enter-sleep"]
    return one, whys(one, list(loose)), any(item.trust is Trust.SERVER for item in slept)


def test_an_equal_port_excludes_nobody_and_ties_nobody() -> None:
    _, told, counts = joined(core(port=8080), log(life(8080)))
    assert counts
    assert "nothing ties them to PID 7 but port 8080, which every life of a restarted server takes" in told


def test_a_log_that_names_the_process_needs_no_word_of_the_user() -> None:
    _, told, counts = joined(core(port=8080), log(life(8080, pid=7)))
    assert counts
    assert "nothing ties" not in told


def test_a_log_of_another_port_is_another_servers() -> None:
    one, told, counts = joined(core(port=8080), log(life(9090)))
    assert not counts
    assert [item.kind for item in one.evidence] == ["core"]
    assert "printed by a server on port 9090" in told


@pytest.mark.parametrize(
    ("args", "port", "counts"),
    [
        (HOSTED, 18729, True),
        (HOSTED, 19595, False),
        ([*HOSTED[:3], "--listen=127.0.0.1:18729"], 18729, True),
        ([*HOSTED[:3], "--listen=127.0.0.1:18729"], 19595, False),
        (HOSTED[:3], 19595, True),  # its port stands nowhere on the command line
        (["python3.11", "/srv/b11063/own.py", "/m/x-18729.1.gguf"], 19595, True),  # no number of its own
        ([], 19595, True),
    ],
)
def test_a_hosted_servers_port_is_any_number_of_its_command_line(
    args: list[str], port: int, counts: bool
) -> None:
    _, told, counted = joined(core(args=args), log(life(port)))
    assert counted is counts
    assert ("does not name port 19595; so no sleep line of it counts" in told) is not counts
    assert "that both were given together" in told


@pytest.mark.parametrize("second", [True, False])
def test_of_several_lives_that_a_core_may_be_of_none_lends_its_sleep(second: bool) -> None:
    _, told, counts = joined(core(port=8080), log(life(8080), life(8080, slept=second)))
    assert not counts
    assert "neither a PID, a unit nor a clock tells which one died" in told


@pytest.mark.parametrize(("first", "pids"), [(9090, (None, None)), (8080, (6, 7))])
def test_of_several_lives_the_one_of_its_port_or_pid_lends_its_own(
    first: int, pids: tuple[int | None, int | None]
) -> None:
    _, told, counts = joined(core(port=8080), log(life(first, pids[0]), life(8080, pids[1])))
    assert counts
    assert "which one died" not in told
