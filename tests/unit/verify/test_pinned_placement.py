"""Placement statistics and the correction that is learnt from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.lab.verify.pinned.placement import REMEMBERED, Correction, placement, quantile

ERRORS = st.lists(st.floats(min_value=-1, max_value=1), min_size=1, max_size=50)


def test_nothing_measured_is_no_statistic():
    assert placement([]) is None


def test_the_median_is_of_distances_and_the_span_keeps_its_sign():
    # GIVEN as many sleeps early as late
    found = placement([-0.004, -0.002, 0.002, 0.004])
    # THEN early and late do not cancel
    assert found is not None
    assert found.median == pytest.approx(0.003)
    assert found.low < 0 < found.high


def test_the_line_says_milliseconds_sign_and_count():
    assert str(placement([0.001, 0.002, 0.003])) == (
        "placement error median 2.0 ms (10-90 %: +1.2 to +2.8, 3 seen)"
    )


@given(ERRORS)
def test_statistics_stay_within_what_was_seen(errors):
    found = placement(errors)
    assert found is not None
    assert found.count == len(errors)
    assert 0 <= found.median <= max(map(abs, errors))
    assert min(errors) - 1e-9 <= found.low <= found.high + 1e-9 <= max(errors) + 2e-9


@given(ERRORS, st.floats(min_value=0, max_value=1))
def test_a_quantile_lies_between_neighbours(errors, share):
    assert min(errors) - 1e-9 <= quantile(sorted(errors), share) <= max(errors) + 1e-9


def test_one_outlier_moves_no_correction():
    correction = Correction([0.0013, 0.0015, 0.0200])
    assert correction.seconds == 0.0015


def test_delays_seen_in_trials_replace_rehearsed_ones_and_can_be_forgotten():
    # GIVEN rehearsals on an idle server
    correction = Correction([0.001, 0.001, 0.001])
    # WHEN a busy one turns out slower
    correction.learn(0.009)
    assert correction.seconds == 0.009
    # THEN another kind of request starts from the rehearsal again
    correction.forget()
    assert correction.seconds == 0.001


def test_only_the_last_delays_count():
    correction = Correction([])
    for delay in [0.5] * 30 + [0.002] * REMEMBERED:
        correction.learn(delay)
    assert correction.seconds == 0.002


def test_without_any_delay_nothing_is_corrected():
    assert Correction([]).seconds == 0.0
