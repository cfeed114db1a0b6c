"""Offsets between clocks in words a tired reader understands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analyzers.contracts.report import ClockOffset, Report
from analyzers.render import render_html, render_markdown
from analyzers.render.clocks import sentence


def offset(
    seconds: float, clock: str = "mono journal.export", to: str = "kernel kern.log", **more: object
) -> str:
    return sentence(ClockOffset.model_validate({"clock": clock, "to": to, "seconds": seconds, **more}))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-0.184, "0.184 s behind"),
        (0.184, "0.184 s ahead of"),
        (0.00025, "250 µs ahead of"),
        (-3600.184, "1:00:00.184 h behind"),
        (90061.5, "1 d 1:01:01.500 h ahead of"),
        (0.0, "agree"),
    ],
)
def test_the_side_and_the_unit(seconds: float, words: str) -> None:
    assert words in offset(seconds)


def test_how_well_it_is_founded() -> None:
    text = offset(-0.184, spread=0.0004, pairs=214)
    assert text == (
        "the clock since boot (journal.export) is 0.184 s behind the kernel's clock (kern.log) ±200 µs, "
        "from 214 common moments"
    )
    assert offset(-0.184, pairs=1).endswith("from 1 common moment")
    assert "±" not in offset(-0.184, spread=0.0, pairs=1)


@pytest.mark.parametrize(
    "pair", [("elapsed server.log", "wall journal", -1.0), ("wall journal", "elapsed x", 1.0)]
)
def test_a_clock_without_a_date_is_told_by_its_zero(pair: tuple[str, str, float]) -> None:
    clock, to, sign = pair
    text = offset(sign * 1796097600.25, clock, to)
    assert text.startswith("0 of the log's clock")
    assert "2026-12-01 04:00:00.250 UTC" in text
    assert "behind" not in text


@pytest.mark.parametrize(
    ("clock", "to", "sign"), [("mono (x.export)", "elapsed (x.export)", 1), ("elapsed (x)", "kernel (y)", -1)]
)
def test_a_log_that_began_after_boot_is_told_by_that(clock: str, to: str, sign: float) -> None:
    assert offset(sign * 8.25, clock, to).startswith("0 of the log's clock (x")
    assert "is 8.250 s after boot" in offset(sign * 8.25, clock, to)
    assert "after boot" not in offset(sign * -8.25, clock, to)


def test_a_name_with_brackets_stays_whole() -> None:
    assert "(log (1))" in offset(1.0, "mono (log (1))", "kernel (k)")


def test_unknown_and_broken_values_are_shown_not_refused() -> None:
    assert "sundial of Ur" in offset(1.0, "sundial of Ur")
    for odd in (float("inf"), float("nan")):
        assert "no number" in offset(odd)
    assert offset(1e300)


def test_they_stand_by_the_timeline_in_every_rendering(
    sample: Callable[[str], Report], terminal: Callable[..., str]
) -> None:
    report = sample("eight_cores")
    shown = terminal(report, width=200)
    assert (
        shown.index("Timeline") < shown.index("0.184 s behind the kernel's clock") < shown.index("Signature")
    )
    assert "put on one" in shown
    page = render_html(report)
    assert page.index('id="timeline"') < page.index("0.184 s behind") < page.index('id="why"')
    public = render_markdown(report)
    assert "0.184 s behind" in public
    assert "journal.export" not in public
