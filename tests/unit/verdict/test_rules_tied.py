"""D1 is proven only with a log that is shown to be this very process's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.contracts.evidence import Incarnation, Trust
from analyzers.contracts.facts import LogFact, LoopFact, SettingsFact
from analyzers.verdict.case import build_case
from analyzers.verdict.decide import decide
from analyzers.verdict.finding import Finding
from analyzers.verdict.tied import LONGEST_LOAD_MS, START_MS, WAKE_STAMP_MS
from evidence_builder import COUNT_AFFECTED, HTTP, PORT, TOKENIZE, WOKEN, Maker

STALE = (*TOKENIZE, COUNT_AFFECTED, *HTTP)
LOOP = LoopFact("awake", ("flags", "frames"), sleeping=False, time_last_task_ms=99_990)
WAKE = 99.99


def verdict(maker: Maker) -> Finding:
    return decide(build_case(maker.made))


def d1(*, ports: tuple[int, ...] = (PORT,), wake: float | None = None, loop: LoopFact = LOOP) -> Maker:
    maker = Maker().log(*WOKEN)
    maker = maker.dated(wake) if wake is not None else maker
    maker.kernel("segfault", mono=100.0).core(ports=ports, pid=7)
    return maker.stack(STALE).add(loop, Trust.KERNEL)


@pytest.mark.parametrize("ms", [-WAKE_STAMP_MS + 1, 0.0, WAKE_STAMP_MS - 1])
def test_a_wake_line_on_the_queues_clock_proves_d1(ms: float) -> None:
    # GIVEN no port and no PID that both name: the moment alone ties them
    found = verdict(d1(ports=(), wake=WAKE + ms / 1000))
    assert (found.defect, found.confidence) == ("D1", "proven")
    assert any("this very process's" in reason for reason in found.reasons)


@pytest.mark.parametrize("seconds", [9_000.0, WAKE + 60, WAKE - LONGEST_LOAD_MS / 1000 - 60])
def test_a_wake_line_of_another_time_is_another_lifes(seconds: float) -> None:
    found = verdict(d1(wake=seconds))
    assert found.confidence == "weak"
    assert any("another life's" in reason for reason in found.reasons)


def test_a_long_load_between_the_line_and_its_end_is_no_proof_and_no_contradiction() -> None:
    assert verdict(d1(wake=WAKE - 30)).confidence == "strong"


def test_a_plain_log_with_the_cores_port_is_strong_at_most_and_names_the_gap() -> None:
    found = verdict(d1())
    assert found.confidence == "strong"
    assert any("log of this very process" in ask.what for ask in found.asks)


@pytest.mark.parametrize("ports", [(), (PORT + 1,)])
def test_a_log_that_only_stands_beside_the_core_is_weak(ports: tuple[int, ...]) -> None:
    found = verdict(d1(ports=ports))
    assert (found.defect, found.confidence) == ("D1", "weak")
    assert any("nothing shows" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("number", "metrics", "confidence"),
    [
        (0, False, "strong"),
        (None, False, "strong"),
        (4, False, "weak"),
        (4, True, "strong"),  # a scrape takes a number and prints no line
        (4, None, "strong"),
    ],
)
def test_tasks_that_the_log_does_not_show_are_another_lifes(
    number: int | None, metrics: bool | None, confidence: str
) -> None:
    maker = d1(loop=replace(LOOP, next_task=number)).add(SettingsFact(metrics=metrics), Trust.KERNEL)
    assert verdict(maker).confidence == confidence


def test_tasks_that_the_queue_has_not_numbered_are_another_lifes() -> None:
    maker = Maker().log("listening").add(LogFact(event="task-done", task_id=9), Trust.SERVER)
    maker = maker.log(*WOKEN[1:])
    maker = maker.kernel("segfault", mono=100.0).core(ports=(PORT,), pid=7)
    maker = maker.stack(STALE).add(replace(LOOP, next_task=4), Trust.KERNEL)
    assert verdict(maker).confidence == "weak"


def test_scrapes_do_not_weaken_a_log_whose_wake_is_the_queues() -> None:
    assert verdict(d1(wake=WAKE, loop=replace(LOOP, next_task=400))).confidence == "proven"


def test_sleep_off_undoes_the_proof() -> None:
    maker = d1(wake=WAKE).add(SettingsFact(sleep_idle_seconds=-1), Trust.KERNEL)
    assert (verdict(maker).class_, verdict(maker).defect) == ("SEGV", None)


def placed(maker: Maker, **fields: object) -> Maker:
    maker.made[2] = maker.made[2].model_copy(update=fields)
    return maker


def test_a_wall_clock_whose_distance_somebody_told_places_the_wake() -> None:
    known = d1(ports=()).add(SettingsFact(sleep_idle_seconds=1), Trust.SUPERVISOR, mono=10.0)
    known.made[-1] = known.made[-1].model_copy(update={"wall": 1_000_010.0})
    assert verdict(placed(known, wall=1_000_000.0 + WAKE)).confidence == "proven"
    assert verdict(placed(known, wall=1_000_000.0 + WAKE + 5)).confidence == "weak"
    # WHEREAS without that distance the wall clock tells nothing
    assert verdict(placed(d1(ports=()), wall=1_000_000.0 + WAKE)).confidence == "weak"


@pytest.mark.parametrize(("late", "confidence"), [(START_MS / 2000, "proven"), (-5.0, "weak"), (9.0, "weak")])
def test_a_process_start_places_the_servers_own_stamps(late: float, confidence: str) -> None:
    maker = d1(ports=()).add(SettingsFact(sleep_idle_seconds=1), Trust.SUPERVISOR)
    who = Incarnation(pid=7, start_time=WAKE - 50 - late)
    maker.made[-1] = maker.made[-1].model_copy(update={"incarnation": who})
    for at in range(4):  # all lines of the log by its own clock
        maker.made[at] = maker.made[at].model_copy(update={"elapsed": 50.0})
    assert verdict(maker).confidence == confidence
