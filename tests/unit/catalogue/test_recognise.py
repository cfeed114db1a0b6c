"""Which build something is: what is asked first, and what happens when two sources disagree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.catalogue.loader import load_catalogue
from analyzers.catalogue.model import Sign
from analyzers.catalogue.recognise import recognise

B11063 = "093f29465c094a0b3e60216f55169f0dde60f676"
# what `find_names` gave for the native builds, whose version text says "build 0, commit unknown"
NATIVE_11138 = [
    "d1-count-tokens-takes-vocab",
    "d1-takes-vocab-mtmd-and-options",
    "after-8672",
    "after-9093",
    "after-9294",
    "after-9538",
    "after-9713",
    "after-9873",
    "after-10068",
    "after-10566",
    "after-10809",
    "before-11368",
    "before-11549",
]
NATIVE_11368 = [
    "d1-takes-the-request-only",
    "after-8672",
    "after-9093",
    "after-9294",
    "after-9538",
    "after-9713",
    "after-9873",
    "after-10068",
    "after-10566",
    "after-10809",
    "after-11138",
    "before-11549",
]
UNSAID = "version: 0.4.1-dev (build 0, commit unknown)"


def test_a_known_build_id_outranks_everything_said() -> None:
    found = load_catalogue().recognise(B11063.upper(), NATIVE_11368, "version: 9999 (abcdef012)")
    assert (found.build, found.how) == (11063, "build-id")
    assert found.wheel is not None
    assert str(found) == "b11063 by its build-id"


@pytest.mark.parametrize(
    ("names", "first", "last", "truth"),
    [(NATIVE_11138, 10810, 11148, 11138), (NATIVE_11368, 11139, 11548, 11368)],
)
def test_a_native_build_without_a_number_is_told_by_its_names(
    names: list[str], first: int, last: int, truth: int
) -> None:
    found = load_catalogue().recognise("ab" * 20, names, UNSAID)
    assert (found.build, found.first, found.last, found.how) == (None, first, last, "marks")
    assert first <= truth <= last
    assert "it has _ZN13server_routes" in found.because


def test_a_number_that_the_names_allow_is_taken_and_one_they_exclude_is_not() -> None:
    known = load_catalogue()
    agreed = known.recognise(None, NATIVE_11138, "version: 11138 (0123456789)")
    assert (agreed.build, agreed.how) == (11138, "version text and marks")
    denied = known.recognise(None, NATIVE_11138, "version: 11368 (0123456789)")
    assert (denied.build, denied.first, denied.last) == (None, 10810, 11148)
    assert "not b11368" in denied.because


def test_a_known_commit_outranks_a_number_beside_it() -> None:
    # a shallow clone counts one commit, and names it
    known = load_catalogue()
    assert known.recognise(None, (), "version: 1 (4df29be4f)").build == 10454
    assert known.recognise(None, (), "1 (4df29be4f0)").how == "commit"
    assert known.recognise(None, (), "version: 1 (deadbeef0)").build is None
    assert known.recognise(None, (), "b10293").how == "version text"


def test_nothing_is_recognised_from_nothing() -> None:
    found = load_catalogue().recognise(None, (), None)
    assert (found.build, found.how, str(found)) == (None, "unknown", "not known")


def test_names_that_no_build_can_have_together_are_unknown() -> None:
    found = load_catalogue().recognise(None, ("after-11368", "before-8929"), "b11549")
    assert (found.build, found.first, found.last, found.how) == (None, None, None, "unknown")
    assert "contradict" in found.because


def test_an_open_side_stays_open() -> None:
    known = load_catalogue()
    assert str(known.recognise(None, ("after-11368",))) == "b11369 or later by its marks"
    assert str(known.recognise(None, ("before-8929",))) == "b8928 or earlier by its marks"


def test_the_names_of_the_binary_outrank_the_number_it_claims() -> None:
    # GIVEN a tree that says it is a fixed build and exports the affected handler
    known = load_catalogue()
    names = ("d1-count-tokens-takes-vocab",)
    found = known.recognise(None, names, "b11368")
    assert known.standing("D1", found, names).status == "affected"
    # GIVEN both shapes at once THEN neither is believed
    both = (*names, "d1-takes-the-request-only")
    assert known.standing("D1", known.recognise(None, both, None), both).status == "unmeasured"


def test_a_range_is_presumed_at_most_and_only_when_all_of_it_stands_alike() -> None:
    known = load_catalogue()
    for names, d1 in ((NATIVE_11138, "affected"), (NATIVE_11368, "fixed")):
        found = known.recognise(None, names, UNSAID)
        assert known.standing("D1", found, names).status == d1  # by the mark itself
        assert known.standing("D2", found, names).status == "presumed-affected"
        assert known.standing("D5", found, names).status == "presumed-fixed"
    gap = known.recognise(None, ("after-10809",), None)  # affected and fixed builds, and those between
    assert known.standing("D1", gap).status == "unmeasured"
    old = known.recognise(None, ("before-8929",), None)  # open towards builds nobody looked at
    assert known.standing("D1", old).status == "unmeasured"


SIGNS = [Sign(f"a{n}", f"s{n}", after=n) for n in (10, 20, 30)] + [
    Sign(f"b{n}", f"t{n}", before=n) for n in (15, 25, 35)
]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(build=st.integers(1, 50), hidden=st.sets(st.sampled_from([s.id for s in SIGNS])))
def test_the_true_build_always_lies_in_the_range(build: int, hidden: set[str]) -> None:
    """GIVEN any build, and any of its names inlined or stripped THEN the range still holds it."""
    shown = [
        s.id
        for s in SIGNS
        if s.id not in hidden
        and (s.after is None or build > s.after)
        and (s.before is None or build < s.before)
    ]
    found = recognise(None, SIGNS, shown, {}, None)
    assert found.first is None or found.first <= build
    assert found.last is None or build <= found.last
    assert (found.how == "unknown") == (not shown)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(text=st.text(max_size=200), names=st.lists(st.sampled_from([*NATIVE_11138, *NATIVE_11368, "junk"])))
def test_hostile_texts_and_names_never_fail(text: str, names: list[str]) -> None:
    found = load_catalogue().recognise(text, names, text)
    assert str(found).isprintable()
    assert load_catalogue().standing("D1", found, names).because
