"""When sleep comes tells whether a call reset the idle timer."""

import pytest

from collector.lab.verify.routes.timer import IDLE_SECONDS, LOOP_WAIT, SEND_AFTER, SLACK, resets_timer


@pytest.mark.parametrize("slept", [2.0, 2.6, 3.0, 3.2])
def test_sleep_at_the_limit_or_one_loop_later_is_no_reset(slept):
    assert resets_timer(slept, sent=1.65) is False


@pytest.mark.parametrize("slept", [3.65, 3.7, 4.6, 9.0])
def test_sleep_a_whole_limit_after_the_call_is_a_reset(slept):
    assert resets_timer(slept, sent=1.65) is True


@pytest.mark.parametrize("slept", [3.3, 3.5])
def test_between_the_two_nothing_is_guessed(slept):
    assert resets_timer(slept, sent=1.65) is None


def test_a_late_call_moves_the_bound_with_it():
    assert resets_timer(3.65, sent=1.9) is None
    assert resets_timer(3.9, sent=1.9) is True


def test_the_two_cases_can_be_told_apart():
    assert SEND_AFTER < IDLE_SECONDS
    assert IDLE_SECONDS + LOOP_WAIT + SLACK < SEND_AFTER + IDLE_SECONDS
