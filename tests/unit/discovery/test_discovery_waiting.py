"""Processes that are no servers yet are looked at ever more rarely, and never forgotten by mistake."""

from __future__ import annotations

import itertools

import pytest

from collector.discovery.waiting import FIRST_SECONDS, LAST_SECONDS, NEVER, Waiting


def test_each_look_is_later_than_the_last() -> None:
    # GIVEN a process that never becomes a server
    waiting, now, looks = Waiting(), 0.0, []
    waiting.begin(7, now)
    # WHEN an hour and a half passes
    while now < 5400:
        now = waiting.next_due()
        for pid, _ in list(waiting.due(now)):
            looks.append(now)
            waiting.again(pid, now)
    # THEN the first look is soon, the gaps grow, and none is longer than the last
    gaps = [round(late - early, 6) for early, late in itertools.pairwise(looks)]
    assert looks[0] == FIRST_SECONDS
    assert gaps == pytest.approx(sorted(gaps))
    assert gaps[-1] == pytest.approx(LAST_SECONDS)


def test_a_dropped_or_renewed_process_is_due_once() -> None:
    waiting = Waiting()
    waiting.add(1, 1.0)
    waiting.add(2, 1.0)
    waiting.drop(1)
    waiting.add(2, 2.0)  # another life of the number
    waiting.add(3, NEVER)  # a kernel thread
    assert [pid for pid, _ in waiting.due(1.5)] == []
    assert [pid for pid, _ in waiting.due(9.0)] == [2]
    assert waiting.next_due() == NEVER
    assert 3 in waiting
    assert not waiting.drop(1)


def test_a_turn_that_did_not_come_is_not_spent() -> None:
    waiting = Waiting()
    waiting.add(1, 0.0, looks=9)
    for round_ in range(5):
        ((pid, other),) = waiting.due(100.0 * round_)
        assert other.looks == 9
        waiting.soon(pid, 100.0 * round_)
    ((pid, other),) = waiting.due(1000.0)
    waiting.put_back(pid, other)
    assert [one for one, _ in waiting.due(1000.0)] == [1]
