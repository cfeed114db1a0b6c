"""Where a sleep is wanted is planned from what the awake server took here, never from a constant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.lab.verify.pinned.windows import NARROWEST, ROOM, Window, post_window, reader_window

SECONDS = st.floats(min_value=0.0, max_value=60.0)


def test_the_aim_inside_a_reader_follows_the_awake_time():
    # GIVEN / WHEN
    fast, slow = reader_window(0.2), reader_window(0.8)
    # THEN the slow machine gets its sleep later, and each inside its own request
    assert fast is not None
    assert slow is not None
    assert fast.aim < slow.aim
    assert fast.aim < 0.2
    assert slow.aim < 0.8


def test_a_very_slow_machine_is_aimed_at_before_the_loop_looks_by_itself():
    window = reader_window(3.0)
    assert window is not None
    assert window.aim == ROOM
    assert window.holds(window.aim)


@pytest.mark.parametrize("awake", [0.0, 0.001, 0.01])
def test_a_request_that_is_over_at_once_has_no_window(awake):
    assert reader_window(awake) is None


def test_a_machine_so_slow_that_reading_begins_out_of_reach_has_no_window():
    # GIVEN a request of which the first tenth already lasts longer than a pin can wait
    assert reader_window(ROOM * 10 + 1) is None


def test_the_window_before_the_post_lies_between_last_read_and_post():
    window = post_window(0.020, 0.140)
    assert window is not None
    assert 0.020 < window.begin < window.aim < window.end < 0.140
    assert window.aim == pytest.approx(0.080)


@pytest.mark.parametrize(
    ("last_read", "posted"),
    [
        pytest.param(0.050, 0.055, id="too narrow for the error of a pin"),
        pytest.param(0.050, 0.050, id="nothing between"),
        pytest.param(0.080, 0.050, id="the plain request was slower: uneven machine"),
        pytest.param(0.600, 2.000, id="begins after the loop looks by itself"),
    ],
)
def test_no_window_before_the_post(last_read, posted):
    assert post_window(last_read, posted) is None


@given(SECONDS)
def test_a_reader_window_always_holds_its_aim(awake):
    window = reader_window(awake)
    assert window is None or (window.holds(window.aim) and window.width >= NARROWEST and window.aim <= ROOM)


@given(SECONDS, SECONDS)
def test_a_post_window_never_reaches_a_reader_or_the_post(last_read, posted):
    window = post_window(last_read, posted)
    assert window is None or (last_read <= window.begin <= window.aim <= window.end <= posted)


def test_the_edges_belong_to_the_window():
    window = Window(0.1, 0.2, 0.3)
    assert window.holds(0.1)
    assert window.holds(0.3)
    assert not window.holds(0.0999)
    assert not window.holds(0.3001)
