"""Where a build stands with a defect, and which texts name a build."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.catalogue.builds import LARGEST_BUILD, SMALLEST_BUILD, build_number_of, standing_of
from analyzers.catalogue.loader import load_catalogue
from analyzers.catalogue.model import BuildRange, Defect, Witness

STATUSES = {"affected", "fixed", "presumed-affected", "presumed-fixed", "unmeasured", "absent"}


@pytest.mark.parametrize(
    ("build", "status"),
    [
        (8671, "unmeasured"),
        (8672, "absent"),
        (9293, "absent"),
        (9294, "absent"),
        (9484, "absent"),
        (9538, "absent"),
        (9539, "unmeasured"),
        (9712, "unmeasured"),
        (9713, "affected"),
        (9714, "presumed-affected"),
        (11063, "affected"),
        (11137, "presumed-affected"),
        (11138, "affected"),
        (11139, "unmeasured"),
        (11148, "unmeasured"),
        (11149, "fixed"),
        (11150, "presumed-fixed"),
        (11368, "fixed"),
        (11549, "fixed"),
        (99_000, "presumed-fixed"),
    ],
)
def test_d1_by_build(build: int, status: str) -> None:
    # GIVEN the shipped catalogue WHEN a build is asked for THEN only witnesses are certain
    assert load_catalogue().affected("D1", build).status == status


@pytest.mark.parametrize(
    ("defect", "build", "status"),
    [
        ("D2", 9293, "unmeasured"),
        ("D2", 9294, "affected"),
        ("D2", 11368, "affected"),
        ("D2", 11500, "presumed-affected"),
        ("D2", 11549, "affected"),
        ("D2", 12_000, "presumed-affected"),
        ("D3", 10565, "unmeasured"),
        ("D3", 11549, "affected"),
        ("D4", 10518, "presumed-affected"),
        ("D4", 10519, "fixed"),
        ("D4", 11549, "fixed"),
        ("D5", 9246, "affected"),
        ("D5", 9093, "affected"),
        ("D5", 9247, "unmeasured"),
        ("D5", 9294, "fixed"),
        ("D5", 11368, "fixed"),
        ("D6", 11549, "unmeasured"),
        ("D7", 11549, "affected"),
        ("D8", 9557, "affected"),
        ("D8", 11549, "unmeasured"),
    ],
)
def test_other_defects_by_build(defect: str, build: int, status: str) -> None:
    assert load_catalogue().affected(defect, build).status == status


def test_a_witness_is_quoted_and_a_neighbour_is_named() -> None:
    catalogue = load_catalogue()
    # GIVEN a build that was run THEN its own record is quoted
    assert "27 of 27" in catalogue.affected("D1", 11063).because
    # GIVEN one between two witnesses THEN both are named and the sentence admits the gap
    because = catalogue.affected("D1", 10000).because
    assert "not looked at" in because
    assert "b9873" in because
    assert "b10068" in because
    # GIVEN one in a gap THEN the sides disagree and both are shown
    gap = catalogue.affected("D1", 11140).because
    assert "affected in b11138" in gap
    assert "fixed in b11149" in gap


def test_an_unknown_build_is_never_called_affected() -> None:
    standing = load_catalogue().affected("D1", None)
    assert standing.status == "unmeasured"
    assert not standing.exposed


def test_an_unknown_defect_is_an_error_of_the_caller() -> None:
    with pytest.raises(KeyError):
        load_catalogue().affected("D99", 11063)


@given(build=st.integers(min_value=0, max_value=LARGEST_BUILD), number=st.integers(1, 8))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_every_build_gets_a_known_status_and_a_reason(build: int, number: int) -> None:
    standing = load_catalogue().affected(f"D{number}", build)
    assert standing.status in STATUSES
    assert standing.because.strip()
    assert standing.exposed == standing.status.endswith("affected")


def test_inside_an_open_range_the_last_witness_speaks_for_what_follows() -> None:
    # GIVEN one open range with one witness
    rows = (BuildRange("affected", 100, None, (Witness(150, "measured", "2026-12-02", "crashed"),)),)
    defect = Defect("DX", "x", "x", "x", "x", "sleep", (), (), builds=rows)
    # WHEN asked before, at and after the witness THEN only the witness is certain
    found = [standing_of(defect, build).status for build in (99, 100, 150, 5000)]
    assert found == ["unmeasured", "presumed-affected", "affected", "presumed-affected"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("b11063", 11063),
        ("version: 10293 (a1f96d4fc)", 10293),
        ("version: 0.1.0-dev (build 10454, commit 4df29be4f)", 10454),
        ("build: 7097 (b03ebc2f1) with cc for x86_64-linux-gnu", 7097),
        ("build_info: b9668-32120c10e", 9668),
        ("xllamacpp 2026.9.11063", 11063),
        ("xllamacpp-2026.10.11549-cp310-abi3", 11549),
        ("system_fingerprint b10566-1a2b3c4", 10566),
    ],
)
def test_texts_that_name_a_build(text: str, number: int) -> None:
    assert build_number_of(text) == number


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "b0-unknown",
        "version: 1 (1705d43)",
        "version: 50 (4df29be4f)",
        "version: 0 (unknown)",
        "version: 0.4.0-dev",
        "commit b123456 of main",
        "(b03ebc2f1)",
        "build 123456789",
        "libb11063x",
        "gcc 12.2.0 (Debian 12.2.0-14)",
        "2026-12-02 10:11:12",
        "build 2026.10.11",
    ],
)
def test_texts_that_do_not(text: str | None) -> None:
    assert build_number_of(text) is None


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_text_gives_a_plausible_number_or_none(text: str) -> None:
    number = build_number_of(text)
    assert number is None or SMALLEST_BUILD <= number <= LARGEST_BUILD


@given(st.integers(SMALLEST_BUILD, LARGEST_BUILD), st.from_regex(r"[0-9a-f]{7,9}", fullmatch=True))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_the_same_build_in_every_spelling(number: int, commit: str) -> None:
    spellings = (
        f"version: {number} ({commit})",
        f"version: 0.1.0-dev (build {number}, commit {commit})",
        f"b{number}",
    )
    assert {build_number_of(text) for text in spellings} == {number}


def test_a_huge_text_is_read_only_at_its_head() -> None:
    assert build_number_of("x " * 5_000_000 + "b11063") is None
