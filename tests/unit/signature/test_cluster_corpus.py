"""The corpus of pasted stacks falls into the groups that are one bug each."""

from __future__ import annotations

import random
import sys
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from analyzers.signature.cluster import JOIN, VERSION, Cluster, Sample, cluster
from analyzers.signature.keys import sign
from analyzers.signature.likeness import anchored, likeness, telling_names
from analyzers.stacks.pasted import parse_pasted

toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
CORPUS = Path(__file__).resolve().parents[2] / "cases" / "signatures"
ROWS: list[dict[str, str]] = toml.loads((CORPUS / "corpus.toml").read_text("utf-8"))["sample"]
BUG = {row["id"]: row["bug"] for row in ROWS}


def sample(row: dict[str, str]) -> Sample:
    stack = next(iter(parse_pasted((CORPUS / f"{row['id']}.txt").read_text("utf-8"))), None)
    defect, handler = row.get("defect"), row.get("handler")
    made = sign(stack, class_=row["class"], defect=defect, handler=handler)
    assert made.bug_key is not None
    return Sample(row["id"], row["class"], made.bug_key, made.site_key, defect, handler, stack)


SAMPLES = [sample(row) for row in ROWS]
CLUSTERS = cluster(SAMPLES)


def together(clusters: list[Cluster]) -> set[frozenset[str]]:
    return {frozenset(made.members) for made in clusters}


def test_the_groups_are_the_expected_ones() -> None:
    expected = {frozenset(id for id, bug in BUG.items() if bug == wanted) for wanted in BUG.values()}
    assert together(CLUSTERS) == expected


def test_the_exact_keys_alone_part_what_the_clusters_join() -> None:
    # GIVEN the same corpus WHEN only equal keys count THEN variants of one bug are several
    keys = {bug: {s.bug_key for s in SAMPLES if BUG[s.id] == bug} for bug in BUG.values()}
    parted = {bug for bug, found in keys.items() if len(found) > 1}
    assert parted == {"flash-attention", "soft-max", "regex", "grammar"}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_incidents_decides_nothing(seed: int) -> None:
    shuffled = list(SAMPLES)
    random.Random(seed).shuffle(shuffled)
    assert cluster(shuffled) == CLUSTERS


def test_a_cut_stack_that_fits_two_defects_joins_neither_and_says_so() -> None:
    (alone,) = [made for made in CLUSTERS if "tokenizer-cut" in made.members]
    assert alone.members == ("tokenizer-cut",)
    assert any("joined to neither" in line for line in alone.explain)


def test_the_twin_without_sleep_stays_apart_from_the_defect() -> None:
    (twin,) = [made for made in CLUSTERS if "tokenizer-awake" in made.members]
    assert twin.members == ("tokenizer-awake",)
    assert any("kept apart" in line and "D2" in line for line in twin.explain)


def test_every_join_is_explained_with_its_share() -> None:
    for made in CLUSTERS:
        assert made.version == VERSION
        assert made.keys[0] == made.key
        joins = [line for line in made.explain if line.startswith("joined")]
        assert len(joins) >= len(made.keys) - 1
        assert sum(line.startswith(f"{n} with the key") for line in made.explain for n in range(1, 9)) == len(
            made.keys
        )


def test_the_threshold_lies_between_variants_and_neighbours() -> None:
    """The figure that JOIN's comment gives."""
    same, different = [], []
    for one, other in combinations(SAMPLES, 2):
        left, right = telling_names(one.stack), telling_names(other.stack)
        if one.defect or other.defect or not anchored(left, right):
            continue
        (same if BUG[one.id] == BUG[other.id] else different).append(likeness(left, right))
    assert min(same) == pytest.approx(0.76, abs=0.01)
    assert min(same) > JOIN
    # what passes both the anchor and the threshold and is another bug is parted by its handler and its class
    assert [round(value, 2) for value in different if value > JOIN] == [1.0]


def test_every_file_of_the_corpus_is_used() -> None:
    assert {path.stem for path in CORPUS.glob("*.txt")} == set(BUG)
