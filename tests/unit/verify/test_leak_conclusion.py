"""What cycles add up to: kept at every sleep, growing, bounded, or too little to say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.trials import ANSWERED, INCONCLUSIVE, LEAKED, Trial
from collector.lab.verify.findings import exit_status
from collector.lab.verify.leak.conclusion import conclude_leak
from collector.lab.verify.leak.slope import slope_of, student

DRAFT = 33.1


def cycles(kept: Sequence[float], missed: int = 0) -> list[Trial]:
    """Trials as the method yields them, of a draft of 33.1 MiB; ``missed`` ones did not reach the window."""
    common = {"defect": "D5", "route": "POST /completion"}
    made = [
        Trial.model_validate(
            {
                **common,
                "number": number,
                "outcome": LEAKED if value >= DRAFT / 2 else ANSWERED,
                "kept_mib": value,
                "draft_mib": DRAFT,
            }
        )
        for number, value in enumerate(kept, start=1)
    ]
    lost = [
        Trial.model_validate({**common, "number": 100 + n, "outcome": INCONCLUSIVE, "reached": False})
        for n in range(missed)
    ]
    return [*made, *lost]


@pytest.mark.parametrize(
    ("kept", "conclusion", "status"),
    [
        # as measured on b9093, b9294 and b11368
        ([33.95, 35.1, 35.55, 35.8, 35.82, 35.82, 35.81, 35.82], "affected", 1),
        ([0.66, 1.9, 2.11, 2.3, 2.33, 2.32, 2.32, 2.32], "sound", 0),
        ([0.7] * 8, "sound", 0),
        # a context of 4 MiB more at every sleep, the weights freed
        ([4.0 * n for n in range(1, 9)], "affected", 1),
        # grows, but within what the noise leaves open
        ([1, 1, 0, 14, 1, 15, 2, 15], "inconclusive", 125),
        # held in some sleeps only: no known defect does that
        ([1, 1, 33, 1, 1, 33, 1, 1], "inconclusive", 125),
        ([1, 1, 1, 1, 1], "inconclusive", 125),
        ([], "inconclusive", 125),
    ],
)
def test_conclusions(kept: list[float], conclusion: str, status: int) -> None:
    (found,) = conclude_leak(cycles(kept))
    assert (found.defect, found.conclusion) == ("D5", conclusion)
    assert exit_status([found]) == status
    assert (found.upper_bound is not None) == (conclusion == "sound")
    assert (found.reached, found.trials) == (len(kept), len(kept))


def test_a_cycle_that_missed_its_window_counts_for_nothing() -> None:
    (found,) = conclude_leak(cycles([0.7] * 8, missed=3))
    assert (found.conclusion, found.reached, found.trials) == ("sound", 8, 11)
    (found,) = conclude_leak(cycles([], missed=20))
    assert (found.conclusion, found.shown) == ("inconclusive", 0)
    (found,) = conclude_leak(cycles([34.0] * 3, missed=20))
    assert found.conclusion == "inconclusive"


def test_the_sentence_carries_size_slope_and_interval() -> None:
    (found,) = conclude_leak(cycles([0.7, 0.7, 0.8, 0.7, 0.8, 0.7, 0.8, 0.7]))
    assert "0.7 of 33.1 MiB held while asleep" in found.because
    assert "[" in found.because


@pytest.mark.parametrize(
    ("freedom", "value"), [(2, 4.303), (3, 3.182), (4, 2.776), (6, 2.447), (10, 2.228), (18, 2.101)]
)
def test_students_t_agrees_with_the_printed_tables(freedom: int, value: float) -> None:
    assert student(freedom) == pytest.approx(value, rel=0.02)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(values=st.lists(st.floats(-100, 100), min_size=4, max_size=40))
def test_the_slope_is_the_least_squares_one(values: list[float]) -> None:
    found = slope_of(values)
    assert found is not None
    assert found.value == pytest.approx(float(np.polyfit(range(len(values)), values, 1)[0]), abs=1e-6)
    assert found.low <= found.value <= found.high


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    chance = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        found = slope_of([0.5 * n + float(chance.normal(0, 2)) for n in range(18)])
        assert found is not None
        held += found.low <= 0.5 <= found.high
    assert 365 <= held <= 395  # 95 % of 400 is 380


def test_too_few_points_have_no_slope() -> None:
    assert slope_of([1, 2, 3]) is None
