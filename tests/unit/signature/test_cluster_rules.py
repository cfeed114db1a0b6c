"""What may and what must not be one group, by hand-made stacks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.facts import Frame, StackFact
from analyzers.signature import cluster as module
from analyzers.signature.cluster import Sample, cluster
from analyzers.signature.likeness import likeness, telling_names

CALLERS = ("inner", "middle", "outer", "llama_decode", "update_slots")


def stack(*names: str, repeat: int = 1) -> StackFact:
    return StackFact(
        frames=tuple(Frame(name, repeat=repeat if n == 0 else 1) for n, name in enumerate(names))
    )


def make(id: str, *names: str, class_: str = "SEGV", **known: str | None) -> Sample:
    return Sample(id, class_, f"{class_}|{id}", stack=stack(*names), **known)


def parts(*samples: Sample) -> set[tuple[str, ...]]:
    return {made.members for made in cluster(samples)}


def test_equal_keys_are_one_group_whatever_the_frames() -> None:
    one, two = make("a", "x", "y", "z"), make("b", "k", "l", "m")
    assert parts(one, replace(two, bug_key=one.bug_key)) == {("a", "b")}


def test_a_stack_cut_on_its_outer_side_joins_its_whole() -> None:
    assert parts(make("whole", "fault", *CALLERS), make("cut", "fault", *CALLERS[:2])) == {("whole", "cut")}


def test_a_function_that_was_inlined_parts_nothing() -> None:
    assert parts(make("a", "fault", *CALLERS), make("b", *CALLERS)) == {("a", "b")}
    assert parts(make("a", "fault", *CALLERS), make("b", "fault", *CALLERS[1:])) == {("a", "b")}


def test_two_neighbours_with_equal_callers_are_two_bugs() -> None:
    assert len(parts(make("a", "mul_mat", *CALLERS), make("b", "soft_max", *CALLERS))) == 2


def test_too_few_frames_are_like_nothing() -> None:
    assert len(parts(make("a", "fault", "inner"), make("b", "fault", "inner", *CALLERS))) == 2


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"defect": "D1"}, {"defect": "D2"}),
        ({"handler": "tokenize"}, {"handler": "handle_completions_impl"}),
        ({"class_": "SEGV"}, {"class_": "ABRT-ASSERT"}),
        ({"defect": "D2", "handler": "tokenize"}, {"handler": "tokenize"}),
    ],
)
def test_a_contradiction_keeps_equal_frames_apart_and_is_said(
    left: dict[str, str], right: dict[str, str]
) -> None:
    samples = make("a", "fault", *CALLERS, **left), make("b", "fault", *CALLERS, **right)  # type: ignore[arg-type]
    made = cluster(samples)
    assert len(made) == 2
    assert all(any(line.startswith("kept apart from") for line in one.explain) for one in made)


def test_classes_of_one_family_may_be_one_bug() -> None:
    whole = make("a", "fault", *CALLERS, class_="SEGV-UAF-SLEEP", defect="D2", handler="tokenize")
    assert parts(whole, make("b", "fault", *CALLERS)) == {("a", "b")}


def test_what_fits_two_that_contradict_each_other_joins_neither() -> None:
    one = make("a", "fault", *CALLERS, class_="SEGV-UAF-SLEEP", defect="D1")
    two = make("b", "fault", *CALLERS, class_="SEGV-UAF-SLEEP", defect="D2")
    assert parts(one, two, make("c", "fault", *CALLERS)) == {("a",), ("b",), ("c",)}


def test_the_same_instruction_joins_what_has_no_names_but_not_two_defects() -> None:
    one, two = (replace(make(id, "?"), stack=None, site_key="ab12+0x40") for id in "ab")
    assert parts(one, two) == {("a", "b")}
    assert parts(replace(one, defect="D1"), replace(two, defect="D2")) == {("a",), ("b",)}


def test_where_a_recursion_ran_out_is_chance() -> None:
    cycle = ["alternates", "sequence"] * 100
    turned = [*cycle[1:], "alternates", "sequence"]
    assert telling_names(stack(*cycle, "parse")) == telling_names(stack(*turned, "parse"))
    assert telling_names(stack(*cycle, "parse")) == ("alternates", "sequence", "parse")


def test_too_many_keys_are_not_compared_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GROUPS", 1)
    made = cluster([make("a", "fault", *CALLERS), make("b", "fault", *CALLERS)])
    assert len(made) == 2
    assert all("too many" in one.explain[-1] for one in made)


NAMES = st.lists(st.sampled_from("abcdefgh"), max_size=12)


@given(NAMES, NAMES)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_likeness_is_symmetric_and_between_0_and_1(left: list[str], right: list[str]) -> None:
    value = likeness(left, right)
    assert value == pytest.approx(likeness(right, left))
    assert 0.0 <= value <= 1.0 + 1e-9
    assert likeness(left, left) == (pytest.approx(1.0) if left else 0.0)


@given(st.lists(st.tuples(NAMES, st.sampled_from(["D1", "D2", None])), max_size=8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_cluster_holds_two_defects_and_none_is_lost(made: list[tuple[list[str], str | None]]) -> None:
    samples = [make(str(n), *names, defect=defect) for n, (names, defect) in enumerate(made)]
    by_id = {one.id: one for one in samples}
    clusters = cluster(samples)
    assert sorted(id for one in clusters for id in one.members) == sorted(by_id)
    for one in clusters:
        assert len({by_id[id].defect for id in one.members} - {None}) <= 1
