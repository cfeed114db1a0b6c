"""A sleep line's moment: the server's own stamp where there is one, its arrival where not."""

import pytest

from collector.lab.reference.output import Line
from collector.lab.verify.pinned.clock import stamp, written


def line(text, mono):
    return Line(text, 0.0, mono)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0.05.525.308 I slot release", 5.525308),
        ("121.57.649.356 I que    start_loop: entering sleeping state", 121 * 60 + 57.649356),
    ],
)
def test_a_stamp_is_read(text, seconds):
    assert stamp(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "que    start_loop: entering sleeping state", "0.5.5.5 I x", "a.05.525.308 I"]
)
def test_a_line_without_a_stamp_has_none(text):
    assert stamp(text) is None


def test_a_line_that_was_read_late_is_dated_by_its_stamp():
    # GIVEN a line that arrived at once and a sleep line that was read 11 ms late
    quick = line("0.01.000.000 I start", 501.0001)
    sleep = line("0.02.000.000 I que    start_loop: entering sleeping state", 502.0111)
    # WHEN / THEN
    assert written(sleep, [quick, sleep]) == pytest.approx(502.0001)


def test_an_older_build_is_dated_by_arrival():
    sleep = line("que    start_loop: entering sleeping state", 502.0111)
    assert written(sleep, [sleep]) == 502.0111


def test_a_forged_stamp_of_another_line_never_dates_a_line_after_its_arrival():
    # GIVEN a line that claims to come from the process's first moment
    forged = line("0.00.000.000 I prompt text", 900.0)
    sleep = line("0.02.000.000 I que    start_loop: entering sleeping state", 502.0)
    assert written(sleep, [forged, sleep]) <= 502.0
