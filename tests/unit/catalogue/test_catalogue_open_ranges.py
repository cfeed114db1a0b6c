"""What nobody looked at is presumed, in every text that tells a range of builds."""

from __future__ import annotations

import pytest

from analyzers.catalogue.loader import catalogue
from analyzers.catalogue.model import BuildRange, Witness
from analyzers.catalogue.pages import defect_page

DEFECTS = catalogue().defects


def ranged(first: int, last: int | None, *seen: int) -> BuildRange:
    return BuildRange(
        "fixed", first, last, tuple(Witness(each, "measured", "2026-12-02", "") for each in seen)
    )


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (ranged(5, 9, 5, 7), "fixed: b5 to b9"),
        (ranged(5, 5, 5), "fixed: b5"),
        (ranged(5, None, 5, 8, 7), "fixed: b5 to b8; in later builds presumed"),
        (ranged(5, None, 5), "fixed: b5; in later builds presumed"),
    ],
)
def test_a_range_ends_with_the_last_build_that_was_looked_at(row: BuildRange, text: str) -> None:
    assert str(row) == text


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.id)
def test_no_page_promises_anything_of_builds_past_the_last_one_looked_at(defect) -> None:
    lines = [line for section in defect_page(defect, catalogue().proofs).sections for line in section.lines]
    rows = [str(row) for row in defect.builds if row.last is None]
    assert all(row in lines and row.endswith("; in later builds presumed") for row in rows)
    assert not [line for line in lines if line.endswith("and later")]
