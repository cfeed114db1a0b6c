"""One incident for each death: what is joined over several inputs, and the look-alike of each join."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import (
    AbortFact,
    CoreFact,
    ExitFact,
    Fact,
    Frame,
    KernelFact,
    LogFact,
    StackFact,
    to_evidence,
)
from analyzers.contracts.report import Gap, Process
from analyzers.contracts.watched import HostFact
from analyzers.triage.build import Group
from analyzers.triage.group import group
from analyzers.triage.lives import Child, Life
from analyzers.triage.material import CoreWork, Material, numbering
from analyzers.triage.relations import NEAR_S, SAME_DEATH_S

next_id = numbering()
A, B = "a" * 32, "b" * 32


def made(
    fact: Fact,
    pid: int | None = None,
    *,
    boot: str | None = None,
    mono: float | None = None,
    wall: float | None = None,
    elapsed: float | None = None,
    text: str = "t",
    trust: Trust = Trust.SUPERVISOR,
) -> Evidence:
    return to_evidence(
        fact,
        id=next_id(),
        source="t:1",
        text=text,
        trust=trust,
        mono=mono,
        wall=wall,
        elapsed=elapsed,
        incarnation=Incarnation(pid=pid, boot_id=boot),
    )


def core(
    pid: int, *tids: int, ip: int = 1, signal: int = 11, boot: str | None = None, **clock: float
) -> Material:
    """A core as its notes tell it; a clock given makes it one of systemd-coredump's store."""
    fact = CoreFact(
        signal=signal, pid=pid, crashed_tid=pid, instruction_pointer=ip, stack_pointer=pid * 4096, server=True
    )
    items = [made(fact, pid)]
    if clock:
        items.append(made(ExitFact("coredump-store", signal=signal, result="core-dump"), pid, **clock))  # type: ignore[arg-type]
    return Material(
        evidence=tuple(items),
        process=Process(pid=pid, boot_id=boot),
        anchor=True,
        tids=frozenset(tids or (pid,)),
        core=CoreWork(Path(f"core{pid}"), None),
    )


def record(pid: int, *, boot: str | None = None, signal: int = 11, **clock: float) -> Material:
    fact = ExitFact("systemd", signal=signal, result="core-dump", name="llama-server")
    return Material(evidence=(made(fact, pid, boot=boot, **clock),))  # type: ignore[arg-type]


def loose(*items: Evidence) -> Material:
    return Material(evidence=items)


def log(*items: Evidence, name: str = "a.log", stream: str = "", port: str | None = None) -> Material:
    return Material(evidence=items, lives=(Life(items, name, stream, port),))


def incidents(*materials: Material) -> tuple[list[Group], list[Gap]]:
    """The same for every order of the inputs, by PID; the groups of the order given."""
    found = [group(order) for order in permutations(materials)] if len(materials) < 5 else [group(materials)]
    shapes = [sorted(_shape(one) for one in groups) for groups, _ in found]
    assert all(shape == shapes[0] for shape in shapes)
    return found[0]


def _shape(one: Group) -> tuple[int, tuple[str, ...]]:
    return one.process.pid or 0, tuple(sorted(item.id for item in one.evidence))


def kinds(one: Group) -> list[str]:
    return sorted(item.kind for item in one.evidence)


def by_pid(groups: Sequence[Group], pid: int) -> Group:
    (one,) = [each for each in groups if each.process.pid == pid]
    return one


def not_counted(gaps: Sequence[Gap]) -> bool:
    return any("do not say to which of these incidents" in gap.why for gap in gaps)


def test_a_core_and_its_record_are_one_death_and_the_next_one_is_another() -> None:
    groups, _ = incidents(core(7), core(8), record(7, wall=100.0))
    assert len(groups) == 2
    assert kinds(by_pid(groups, 7)) == ["core", "exit"]
    assert kinds(by_pid(groups, 8)) == ["core"]


def test_a_record_of_a_third_process_is_a_third_death() -> None:
    groups, _ = incidents(core(7), core(8), record(9))
    assert [one.process.pid for one in groups] == [7, 8, 9]


@pytest.mark.parametrize(("apart", "deaths"), [(1.0, 1), (SAME_DEATH_S + 1, 2)])
def test_a_pid_that_was_used_again_is_another_process(apart: float, deaths: int) -> None:
    groups, _ = incidents(core(7, wall=1000.0), record(7, wall=1000.0 + apart), record(30))
    assert len(groups) == deaths + 1


def test_two_boots_are_two_deaths_whatever_their_pid_and_clock() -> None:
    groups, _ = incidents(core(7, boot=A), record(7, boot=B), record(9, boot=A))
    assert len(groups) == 3


def test_two_cores_of_one_pid_are_two_deaths_and_one_core_in_two_files_is_one() -> None:
    two, _ = incidents(core(7, ip=1), core(7, ip=2))
    assert len(two) == 2
    one, _ = incidents(core(7, ip=1), core(7, ip=1), core(8))
    assert len(one) == 2


USED_TWICE = [
    ({"boot": A}, {"boot": B}),
    ({"wall": 100.0}, {"wall": 100.0 + 2 * SAME_DEATH_S}),
]


@pytest.mark.parametrize(("one", "other"), USED_TWICE)
def test_a_core_that_fits_either_use_of_its_pid_is_joined_to_neither(
    one: dict[str, float], other: dict[str, float]
) -> None:
    # GIVEN two deaths of one PID, and a core that tells neither its boot nor its time
    groups, gaps = incidents(core(7), record(7, **one), record(7, **other))  # type: ignore[arg-type]
    assert sorted(kinds(each) for each in groups) == [["core"], ["exit"], ["exit"]]
    assert any("PID was used by more than one" in gap.why for gap in gaps)


def test_a_record_that_fits_two_deaths_of_its_pid_adds_none() -> None:
    groups, gaps = incidents(record(7), record(7, wall=100.0), record(7, wall=100.0 + 2 * SAME_DEATH_S))
    assert [kinds(each) for each in groups] == [["exit"], ["exit"]]
    assert not_counted(gaps)


@pytest.mark.parametrize(("at", "joined"), [(1, 1), (2, 0)])
def test_a_containers_thread_numbers_tie_only_with_the_instruction(at: int, joined: int) -> None:
    # GIVEN records of two containers, whose threads have the same small numbers as the core's
    def told(pid: int, ip: int) -> Material:
        trace = StackFact(tid=1, crashed=True, rung="pasted", frames=(Frame("f", ip=ip),))
        end = made(ExitFact("coredump-store", signal=11, result="core-dump", name="llama-server"), pid)
        return Material((end, made(trace, pid)), process=Process(pid=pid), anchor=True)

    groups, _ = incidents(core(1, 1, 7, ip=1), told(4711, at), told(5711, 99))
    assert sum("core" in kinds(each) and "exit" in kinds(each) for each in groups) == joined
    assert not any("core" in kinds(each) for each in groups if each.process.pid == 5711)


def test_signals_that_differ_are_two_deaths() -> None:
    groups, _ = incidents(core(7, signal=11), record(7, signal=6), record(9))
    assert len(groups) == 3


def test_the_kernels_number_is_a_thread() -> None:
    line = made(KernelFact("segfault", tid=75, name="llama-server"), trust=Trust.KERNEL)
    groups, gaps = incidents(core(7, 7, 75), core(8, 8, 85), loose(line))
    assert kinds(by_pid(groups, 7)) == ["core", "kernel"]
    assert kinds(by_pid(groups, 8)) == ["core"]
    assert gaps == []


def test_a_kernel_line_of_a_thread_that_no_core_has_joins_none() -> None:
    line = made(KernelFact("segfault", tid=99, name="llama-server"), trust=Trust.KERNEL)
    groups, gaps = incidents(core(7), core(8), loose(line))
    assert [kinds(one) for one in groups] == [["core"], ["core"]]
    assert not_counted(gaps)


@pytest.mark.parametrize(("late", "joins"), [(0.0015, True), (NEAR_S + 1, False)])
def test_without_a_core_the_kernels_line_of_a_thread_joins_by_its_clock(late: float, joins: bool) -> None:
    line = made(KernelFact("segfault", tid=75, name="llama-server"), mono=50.0 - late, trust=Trust.KERNEL)
    groups, gaps = incidents(record(7, mono=50.0), record(8, mono=90.0), loose(line))
    assert (kinds(by_pid(groups, 7)) == ["exit", "kernel"]) is joins
    assert not_counted(gaps) is not joins


def test_a_kernel_line_that_fits_two_deaths_of_one_moment_joins_neither() -> None:
    line = made(KernelFact("segfault", tid=75, name="llama-server"), mono=50.0, trust=Trust.KERNEL)
    groups, gaps = incidents(record(7, mono=50.1), record(8, mono=50.2), loose(line))
    assert [kinds(one) for one in groups] == [["exit"], ["exit"]]
    assert not_counted(gaps)


def test_seconds_of_another_boot_tie_nothing() -> None:
    # GIVEN deaths in two boots and a kernel line whose boot nobody names
    line = made(KernelFact("segfault", tid=75, name="llama-server"), mono=50.0, trust=Trust.KERNEL)
    groups, gaps = incidents(record(7, boot=A, mono=50.0), record(8, boot=B, mono=900.0), loose(line))
    assert [kinds(one) for one in groups] == [["exit"], ["exit"]]
    assert not_counted(gaps)


def test_a_trace_of_a_cores_thread_joins_it_unless_it_names_another_process() -> None:
    own = made(StackFact(tid=75, crashed=True, rung="self-trace"), trust=Trust.SERVER)
    other = made(StackFact(tid=75, crashed=True, rung="self-trace"), 5000, trust=Trust.SERVER)
    groups, _ = incidents(core(7, 7, 75), core(8, 8), loose(own))
    assert kinds(by_pid(groups, 7)) == ["core", "stack"]
    assert all("stack" not in kinds(one) for one in incidents(core(7, 7, 75), core(8), loose(other))[0])


SLEPT = (LogFact("loaded"), LogFact("enter-sleep"))


def lines(pid: int | None, start: float) -> list[Evidence]:
    facts = [LogFact("listening"), *SLEPT]
    return [
        made(fact, pid, elapsed=0.1 * at, text=fact.event, trust=Trust.SERVER, wall=start + 0.1 * at)
        for at, fact in enumerate(facts)
    ]


def test_a_plain_log_joins_the_only_core_that_died_in_its_time() -> None:
    own = log(*lines(None, 200.0))
    groups, gaps = incidents(core(7, wall=150.0), core(8, wall=250.0), own)
    assert gaps == []
    assert kinds(by_pid(groups, 8)) == ["core", "exit", "log", "log", "log"]
    assert kinds(by_pid(groups, 7)) == ["core", "exit"]


def test_logs_of_servers_side_by_side_are_not_told_apart_by_a_clock() -> None:
    # GIVEN two logs that both run when the second one dies: either may be its own
    first, second = log(*lines(None, 100.0)), log(*lines(None, 201.0), name="b.log")
    groups, gaps = incidents(core(7, wall=150.0), core(8, wall=250.0), first, second)
    assert [kinds(one) for one in groups] == [["core", "exit"]] * 2
    assert not_counted(gaps)


def test_restarts_of_one_log_go_each_to_its_own_death() -> None:
    one, two = lines(None, 100.0), lines(None, 200.0)
    both = Material(evidence=(*one, *two), lives=(Life(tuple(one), "a.log"), Life(tuple(two), "a.log")))
    groups, gaps = incidents(core(7, wall=150.0), core(8, wall=250.0), both)
    assert gaps == []
    assert {item.id for item in by_pid(groups, 7).evidence if item.kind == "log"} == {item.id for item in one}
    assert {item.id for item in by_pid(groups, 8).evidence if item.kind == "log"} == {item.id for item in two}


def test_a_log_without_any_tie_joins_no_core() -> None:
    items = [made(fact, trust=Trust.SERVER) for fact in SLEPT]
    groups, gaps = incidents(core(7), core(8), log(*items))
    assert all("log" not in kinds(one) for one in groups)
    assert not_counted(gaps)


def test_a_log_that_began_after_every_death_joins_none() -> None:
    groups, gaps = incidents(core(7, wall=50.0), core(8, wall=60.0), log(*lines(None, 100.0)))
    assert all("log" not in kinds(one) for one in groups)
    assert not_counted(gaps)


def test_a_log_of_a_named_process_joins_only_its_death() -> None:
    groups, _ = incidents(core(7), core(8), log(*lines(7, 1.0)))
    assert kinds(by_pid(groups, 7)) == ["core", "log", "log", "log"]
    assert kinds(by_pid(groups, 8)) == ["core"]


def test_the_same_lines_in_two_texts_are_one_life() -> None:
    # GIVEN an assertion in a journal and in the container's own log, and another server's death
    def text(pid: int | None, name: str) -> Material:
        items = lines(pid, 100.0)
        items.append(made(AbortFact("ggml-assert"), pid, elapsed=1.0, text="assert", trust=Trust.SERVER))
        return log(*items, name=name)

    groups, _ = incidents(text(7, "journal"), text(None, "docker.log"), record(9))
    assert len(groups) == 2
    # THEN each line counts once, and the second text's are kept for its clock
    assert kinds(by_pid(groups, 7)) == ["abort", "log", "log", "log"]
    assert len(by_pid(groups, 7).copies) == 4


def test_two_logs_that_share_no_line_are_two_deaths() -> None:
    def text(name: str, shift: float) -> Material:
        facts: tuple[Fact, ...] = (LogFact("init"), LogFact("loaded"), AbortFact("ggml-assert"))
        items = [
            made(fact, elapsed=shift + at, text=str(at), trust=Trust.SERVER) for at, fact in enumerate(facts)
        ]
        return log(*items, name=name)

    assert len(incidents(text("a.log", 0.001), text("b.log", 0.002))[0]) == 2
    assert len(incidents(text("a.log", 0.001), text("b.log", 0.001))[0]) == 1


def test_no_fact_of_children_that_died_counts_twice() -> None:
    def child(port: str, name: str) -> tuple[list[Evidence], Life]:
        ended = made(ExitFact("router", code=1, unit=name), trust=Trust.SERVER)
        own = made(LogFact("loaded", port=port), trust=Trust.SERVER)
        return [own, ended], Life((own,), "router.log", "", port, child=Child(name, port, (ended,), ended, 1))

    (one, first), (two, second) = child("9001", "a"), child("9002", "b")
    router = Material(evidence=(*one, *two), lives=(first, second))
    groups, _ = incidents(router, record(9, wall=1.0))
    assert len(groups) == 1
    assert len({item.id for each in groups for item in each.evidence}) == sum(len(g.evidence) for g in groups)


def test_a_supervisors_word_joins_the_death_before_it() -> None:
    end = made(ExitFact("systemd", signal=11, unit="llama.service"), wall=104.0)
    groups, gaps = incidents(core(7, wall=100.0), core(8, wall=900.0), loose(end))
    assert kinds(by_pid(groups, 7)) == ["core", "exit", "exit"]
    assert gaps == []


def test_a_supervisors_word_between_two_deaths_of_a_crash_loop_joins_neither() -> None:
    end = made(ExitFact("systemd", signal=11, unit="llama.service"), wall=104.0)
    groups, gaps = incidents(core(7, wall=100.0), core(8, wall=103.0), loose(end))
    assert [len(one.evidence) for one in groups] == [2, 2]
    assert not_counted(gaps)


def test_what_befell_the_host_befell_every_server_of_that_boot() -> None:
    panic = made(KernelFact("panic"), boot=A, trust=Trust.KERNEL)
    groups, _ = incidents(record(7, boot=A), record(8, boot=A), record(9, boot=B), loose(panic))
    assert [kinds(by_pid(groups, pid)) for pid in (7, 8, 9)] == [["exit", "kernel"]] * 2 + [["exit"]]


def test_a_reboot_ended_only_the_process_that_its_fact_names() -> None:
    booted = made(HostFact("rebooted", boot_id=B), 7, boot=A)
    groups, _ = incidents(record(7, boot=A), record(8, boot=A), loose(booted))
    assert [kinds(by_pid(groups, pid)) for pid in (7, 8)] == [["exit", "host"], ["exit"]]


def test_a_wall_clock_that_jumped_joins_nothing_and_is_named() -> None:
    # GIVEN the tie of the test above, and entries between which the wall clock went back an hour
    end = made(ExitFact("systemd", signal=11, unit="llama.service"), wall=104.0)
    stamps = ((1000.0, 10.0), (1001.0, 11.0), (-2598.0, 12.0))
    jump = [made(LogFact("request"), 77, wall=wall, mono=mono) for wall, mono in stamps]
    groups, gaps = incidents(core(7, wall=100.0), core(8, wall=900.0), loose(end, *jump))
    assert [len(one.evidence) for one in groups] == [2, 2]
    assert any("jumped by -3600.000 s" in gap.why for gap in gaps)


def test_a_containers_first_process_is_not_told_from_the_hosts_numbers() -> None:
    groups, gaps = incidents(core(1), core(8), record(4711, signal=11))
    assert len(groups) == 3
    assert any("is the core of one of the other incidents" in gap.what for gap in gaps)


def test_another_programs_record_is_no_death_here() -> None:
    chrome = made(ExitFact("systemd", signal=11, result="core-dump", name="chrome"), 777)
    groups, _ = incidents(core(7), core(8), loose(chrome))
    assert [one.process.pid for one in groups] == [7, 8]


def test_a_client_can_neither_add_a_death_nor_tie_one() -> None:
    forged = made(
        ExitFact("systemd", signal=11, result="core-dump", name="llama-server"), 7, trust=Trust.CLIENT
    )
    groups, gaps = incidents(core(7), core(8), loose(forged))
    assert [kinds(one) for one in groups] == [["core"], ["core"]]
    assert any("not believed" in gap.why for gap in gaps)
