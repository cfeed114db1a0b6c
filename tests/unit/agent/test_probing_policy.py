"""Which questions a server is asked, and when: nothing that wakes, one at a time, fewer when it fails."""

from __future__ import annotations

import pytest

from collector.agent.probing import HEALTH, MAX_BACKOFF, METRICS, PROPS, Timetable, allowed


@pytest.mark.parametrize("build", [11063, 11138, 11368, 11549])
def test_a_known_build_is_asked_what_leaves_it_alone(build):
    assert allowed(build).routes == (HEALTH, PROPS)


def test_an_unknown_build_gets_health_only_and_the_reason_is_told():
    may = allowed(None)
    assert may.routes == (HEALTH,)
    assert may.notes


@pytest.mark.parametrize("build", [None, 8672, 9294, 10229, 11063, 11138, 11368, 11549, 99999])
@pytest.mark.parametrize("metrics", [False, True])
def test_slots_is_never_asked_and_metrics_only_when_the_operator_said_so(build, metrics):
    may = allowed(build, metrics=metrics)
    assert set(may.routes) <= {HEALTH, PROPS, METRICS}
    assert metrics or METRICS not in may.routes
    assert (METRICS in may.routes) == (may.cost is not None)


def test_metrics_where_it_is_allowed_tells_its_cost():
    may = allowed(11549, metrics=True)
    assert may.routes == (HEALTH, PROPS, METRICS)
    assert "sleep" in (may.cost or "")


def table(**more: float) -> Timetable:
    return Timetable(every=10.0, spread=lambda: 0.5, **more)


def test_a_server_is_asked_once_at_a_time_and_every_interval():
    turns = table()
    turns.born(7, 0.0)
    assert turns.due(0.4, 8) == []
    assert turns.due(0.5, 8) == [7]
    assert turns.due(100.0, 8) == []  # in flight
    turns.answered(7, ["answered", "answered"], 1.0)
    assert turns.due(10.9, 8) == []
    assert turns.due(11.0, 8) == [7]


def test_the_pool_s_size_bounds_the_turns_and_the_longest_due_come_first():
    turns = table()
    for pid in (3, 1, 2):
        turns.born(pid, float(pid))
    assert turns.due(50.0, 2) == [1, 2]
    assert turns.due(50.0, 0) == []
    assert turns.due(50.0, 1) == [3]


@pytest.mark.parametrize("outcome", ["garbage", "too-big", "redirect", "unexpected", "refused", "timeout"])
def test_a_server_that_answers_badly_is_asked_less_and_less_and_never_quite_forgotten(outcome):
    turns, now, waits = table(), 0.0, []
    turns.born(7, now)
    for _ in range(12):
        while not turns.due(now, 8):
            now += 1.0
        asked = now
        turns.answered(7, [outcome], now)
        while not turns.due(now, 8):
            now += 1.0
        waits.append(now - asked)
        turns.answered(7, [outcome], now)
    assert waits[0] <= waits[1] <= waits[-1] <= MAX_BACKOFF + 1
    assert waits[-1] > 100
    turns.answered(7, ["answered"], now)
    assert turns.failures(7) == 0


def test_props_that_block_beside_a_good_health_are_no_failure():
    turns = table()
    turns.born(7, 0.0)
    turns.due(1.0, 8)
    turns.answered(7, ["answered", "timeout"], 1.0)
    assert turns.failures(7) == 0


def test_a_hurry_asks_before_the_turn_but_not_one_that_fails():
    turns = table()
    turns.born(7, 0.0)
    turns.due(1.0, 8)
    turns.answered(7, ["answered"], 1.0)
    turns.hurry(7, 2.0)
    assert turns.due(2.0, 8) == [7]
    turns.answered(7, ["garbage"], 2.0)
    turns.hurry(7, 3.0)
    assert turns.due(3.0, 8) == []


def test_a_server_that_went_is_asked_no_more():
    turns = table()
    turns.born(7, 0.0)
    turns.gone(7)
    turns.answered(7, ["answered"], 1.0)
    assert turns.due(100.0, 8) == []
