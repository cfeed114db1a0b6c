"""Which evidence belongs to which incident: a guess could blame the wrong process, so there are none."""

from __future__ import annotations

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import AbortFact, CoreFact, ExitFact, Fact, KernelFact, LogFact, to_evidence
from analyzers.contracts.report import Process
from analyzers.triage.dying import one_life
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import Material, numbering

next_id = numbering()


def made(
    fact: Fact, pid: int | None = None, mono: float | None = None, wall: float | None = None
) -> Evidence:
    return to_evidence(
        fact,
        id=next_id(),
        source="t",
        text="t",
        trust=Trust.KERNEL,
        mono=mono,
        wall=wall,
        incarnation=Incarnation(pid=pid),
    )


def fault(tid: int, object_: str = "libllama.so", name: str = "llama-server") -> Evidence:
    return made(KernelFact(shape="segfault", tid=tid, object=object_, name=name))


def core(pid: int, *tids: int) -> Material:
    return Material(process=Process(pid=pid), anchor=True, tids=frozenset(tids))


def kernel_of(group_: object) -> list[int | None]:
    evidence = group_.evidence  # type: ignore[attr-defined]
    return [item.data.get("tid") for item in evidence if item.kind == "kernel"]


def test_a_kernel_line_joins_the_core_that_has_its_thread() -> None:
    lines = Material(evidence=(fault(11), fault(22), fault(99)))
    groups, gaps = group([core(1, 10, 11), core(2, 20, 22), lines])
    assert [kernel_of(item) for item in groups] == [[11], [22]]
    assert any("1 facts" in gap.what and "not counted" in gap.why for gap in gaps)


def test_log_lines_with_a_pid_join_their_process_only() -> None:
    log = Material(evidence=(made(LogFact("enter-sleep"), pid=1), made(LogFact("enter-sleep"), pid=3)))
    groups, _ = group([core(1, 10), core(2, 20), log])
    assert [len(item.evidence) for item in groups] == [1, 0]


def test_with_one_incident_what_names_no_process_joins_it() -> None:
    groups, gaps = group([core(1, 10), Material(evidence=(made(LogFact("enter-sleep")),))])
    assert len(groups[0].evidence) == 1
    assert gaps == []


def test_without_a_core_one_fault_of_ours_is_taken_and_strangers_are_not() -> None:
    stranger = fault(50, "libxul.so", "firefox")
    groups, gaps = group([Material(evidence=(fault(11), stranger))])
    assert kernel_of(groups[0]) == [11]
    assert any("other faults" in gap.what for gap in gaps)


def test_without_a_core_two_faults_of_ours_decide_nothing() -> None:
    groups, gaps = group([Material(evidence=(fault(11), fault(12)))])
    assert kernel_of(groups[0]) == []
    assert any("several fit" in gap.why for gap in gaps)


def test_only_a_strangers_fault_beside_ours_unknown_is_not_ours() -> None:
    log = made(LogFact("enter-sleep"), pid=7)
    named = fault(7)
    groups, _ = group([Material(evidence=(log, named, fault(12)))])
    assert kernel_of(groups[0]) == [7]


def life(*facts: Fact, pid: int | None = None, wall: float | None = None) -> Life:
    return Life(tuple(made(fact, pid=pid, wall=wall) for fact in facts))


def read(lives: list[Life], *more: Evidence) -> tuple[list[str], list[str]]:
    items = [item for each in lives for item in each.items] + list(more)
    chosen = one_life(items, lives)
    events = [item.data.get("event", item.kind) for item in chosen.items]
    return events, [gap.why for gap in chosen.gaps]


def test_the_life_of_the_dead_pid_is_read() -> None:
    lives = [life(LogFact("enter-sleep"), pid=1), life(LogFact("listening"), pid=2)]
    events, why = read(lives, made(ExitFact(signal=11), pid=1))
    assert "enter-sleep" in events
    assert "listening" not in events
    assert "PID 1" in why[0]


def test_the_life_whose_first_thread_the_kernel_names_is_read() -> None:
    lives = [life(LogFact("listening"), pid=7, wall=1.0), life(LogFact("enter-sleep"), pid=9, wall=2.0)]
    events, why = read(lives, made(KernelFact("segfault", tid=7), wall=3.0))
    assert "enter-sleep" not in events
    assert "PID 7" in why[0]
    events, _ = read(lives, made(KernelFact("segfault", tid=8), wall=3.0))
    assert "enter-sleep" in events


def test_the_life_that_ran_when_the_process_died_is_read() -> None:
    lives = [life(LogFact("enter-sleep"), wall=100.0), life(LogFact("listening"), wall=200.0)]
    assert "enter-sleep" in read(lives, made(ExitFact(signal=11), wall=150.0))[0]
    assert "listening" in read(lives, made(ExitFact(signal=11), wall=250.0))[0]


def test_without_clocks_the_last_silent_death_before_a_restart_is_read() -> None:
    lives = [
        life(LogFact("enter-sleep"), LogFact("stopping")),
        life(LogFact("exit-sleep")),
        life(LogFact("listening")),
    ]
    assert read(lives, made(ExitFact(signal=11)))[0][0] == "exit-sleep"


def test_a_life_that_aborted_outranks_a_silent_one() -> None:
    lives = [life(AbortFact("ggml-assert")), life(LogFact("exit-sleep")), life(LogFact("listening"))]
    assert read(lives)[0] == ["abort"]


def test_without_any_death_the_last_life_is_read() -> None:
    lives = [life(LogFact("enter-sleep")), life(LogFact("listening"))]
    assert read(lives)[0] == ["listening"]


def test_one_life_needs_no_choice() -> None:
    assert read([life(LogFact("enter-sleep"))]) == (["enter-sleep"], [])


def lane(name: str, *facts: Fact, stream: str = "", port: str | None = None, form: str | None = None) -> Life:
    return Life(tuple(made(fact) for fact in facts), name, stream, port, form)


WOKE = (LogFact("loaded"), LogFact("enter-sleep"), LogFact("exit-sleep"))
NEVER = (LogFact("loaded"),)
SIDE_BY_SIDE = {
    "router": (lane("log", *WOKE, port="8081"), lane("log", *NEVER, port="8082")),
    "compose": (lane("log", *WOKE, stream="a-1"), lane("log", *NEVER, stream="b-1")),
    "restart": (lane("log", *WOKE), lane("log", *NEVER)),
    "two logs": (lane("d1.log", *WOKE), lane("never.log", *NEVER)),
}


def trusted_sleep(lives: list[Life], *more: Evidence) -> tuple[bool, list[str]]:
    chosen = one_life([*(i for each in lives for i in each.items), *more], lives)
    sleeps = [i for i in chosen.items if str(i.data.get("event")).endswith("-sleep")]
    return any(i.trust is not Trust.CLIENT for i in sleeps), [gap.what for gap in chosen.gaps]


@pytest.mark.parametrize("lives", SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE.keys())
@pytest.mark.parametrize("turned", [False, True])
def test_a_guess_between_lives_lends_no_sleep(lives: tuple[Life, Life], turned: bool) -> None:
    given = list(lives[::-1] if turned else lives)
    lent, gaps = trusted_sleep(given, made(ExitFact("trace", signal=11)))
    assert not lent
    assert "the sleep of the server that died" in gaps


@pytest.mark.parametrize("name", ["router", "compose", "two logs"])
def test_the_order_of_the_inputs_does_not_choose(name: str) -> None:
    lives = list(SIDE_BY_SIDE[name])
    if name == "two logs":
        assert read(lives) == read(lives[::-1])


def test_lives_that_all_slept_lend_their_sleep() -> None:
    lent, gaps = trusted_sleep([lane("log", *WOKE), lane("log", *WOKE)], made(ExitFact("trace", signal=11)))
    assert lent
    assert len(gaps) == 1


def test_a_container_that_exited_is_the_one_that_is_read() -> None:
    lives = [lane("l", *WOKE, stream="a-1", form="compose"), lane("l", *NEVER, stream="b-1", form="compose")]
    for unit, slept in (("a-1", True), ("b-1", False)):
        lent, gaps = trusted_sleep(lives, made(ExitFact("docker", signal=11, unit=unit)))
        assert lent is slept
        assert len(gaps) == 1


def test_two_servers_that_ran_at_the_same_time_are_not_told_apart_by_a_clock() -> None:
    lives = [life(*WOKE, wall=1.0), life(*NEVER, wall=2.0)]
    apart = [Life(each.items, "log", str(at)) for at, each in enumerate(lives)]
    assert trusted_sleep(apart, made(ExitFact(signal=11), wall=3.0))[0] is False
    assert trusted_sleep(lives, made(ExitFact(signal=11), wall=1.5))[0] is True


def test_a_routers_own_life_is_not_the_one_that_crashed() -> None:
    lives = [lane("log", LogFact("listening")), lane("log", *WOKE, port="8081")]
    lent, gaps = trusted_sleep(lives, made(ExitFact("trace", signal=11)))
    assert lent
    assert len(gaps) == 1


def test_the_only_life_that_aborted_is_known_when_the_abort_is_the_death() -> None:
    lives = [lane("log", *WOKE, stream=""), lane("log", *NEVER)]
    aborting = Life((*lives[0].items, made(AbortFact("wake-reload"))), "log")
    assert trusted_sleep([aborting, lives[1]])[0] is True
    core = to_evidence(CoreFact(signal=11), id="c", source="core", text="c", trust=Trust.KERNEL)
    assert trusted_sleep([aborting, lives[1]], core)[0] is False


def test_workers_of_one_unit_are_not_told_apart_by_a_clock_but_restarts_are() -> None:
    def at(wall: float, last: float, *facts: Fact) -> Life:
        items = [made(fact, wall=wall) for fact in facts] + [made(LogFact("slots-idle"), wall=last)]
        return Life(tuple(items), "log", "llama.service")

    died = made(ExitFact(signal=11), wall=9.0)
    assert trusted_sleep([at(1.0, 8.0, *WOKE), at(2.0, 8.0, *NEVER)], died)[0] is False
    assert trusted_sleep([at(1.0, 4.0, *NEVER), at(5.0, 8.0, *WOKE)], died)[0] is True
