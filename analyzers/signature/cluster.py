"""Groups of incidents that are likely one bug, beside the exact keys.

Equal bug keys are one group; nothing here parts them. Groups whose keys differ are joined when their stacks
are alike (``likeness``) or stand at the very same instruction of the same build, and nothing contradicts it:

- two different defects, two different route handlers, a memory fault and an abort are never one group;
- a stack with a route handler that was not judged to be a defect is not joined to that defect: most sleep
  defects have a twin without sleep, and the frames do not tell them apart;
- a stack that fits two groups which contradict each other (D1 and D2 can share all their top frames) joins
  neither. What was kept apart for such a reason is said.

The result does not depend on the order of the incidents. ``VERSION`` rises whenever the same incidents would
be grouped otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from analyzers.contracts.facts import StackFact
from analyzers.signature.likeness import anchored, likeness, recurses, telling_names
from analyzers.signature.rules import printable

VERSION = 1
# Measured on tests/cases/signatures: anchored variants of one bug lie at 0.76 and above; two operators with
# equal callers reach 0.70, and only the anchor parts them.
JOIN = 0.72
MIN_NAMES = 3  # fewer telling frames are in too many stacks; a recursion's own cycle is telling by itself
MIN_RECURSIVE = 1
MAX_GROUPS = 400  # exact groups compared with each other (80,000 pairs, seconds); beyond it, exact keys only
SAID = 20  # lines of explanation of one cluster

MEMORY = ("SEGV", "SEGV-STACK", "SEGV-UAF-SLEEP", "BUS")
ABORT = (
    "ABRT-ASSERT",
    "ABRT-ABORT",
    "ABRT-EXCEPTION",
    "ABRT-WAKE-RELOAD",
    "ABRT-PID1",
    "GPU-RUNTIME",
    "GPU-OOM",
)


@dataclass(frozen=True)
class Sample:
    """One incident: its id, its verdict's class, defect and handler, its exact keys, its faulting stack."""

    id: str
    class_: str
    bug_key: str
    site_key: str | None = None
    defect: str | None = None
    handler: str | None = None
    stack: StackFact | None = None


@dataclass(frozen=True)
class Cluster:
    """``key`` is the best-known member's bug key; ``members`` are sample ids, ``keys`` the exact keys."""

    key: str
    members: tuple[str, ...]
    keys: tuple[str, ...]
    explain: tuple[str, ...] = ()
    version: int = VERSION


@dataclass
class _Group:
    """The samples of one exact key; ``names`` are of its longest stack."""

    key: str
    samples: list[Sample]
    names: tuple[str, ...] = ()
    recursive: bool = False
    sites: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)

    @property
    def first(self) -> Sample:
        return self.samples[0]

    @property
    def standing(self) -> tuple[bool, bool, int, str]:
        """The best known first: with a defect, with a handler, with most frames."""
        return self.first.defect is None, self.first.handler is None, -len(self.names), self.key


@dataclass(frozen=True)
class _Edge:
    """Two groups that look like one bug. ``score`` is above 1 for the same instruction."""

    score: float
    left: _Group
    right: _Group
    why: str


def cluster(samples: Iterable[Sample]) -> list[Cluster]:
    """The clusters, largest first. Never raises; sample ids should differ."""
    groups = _exact(samples)
    edges = _edges(groups) if len(groups) <= MAX_GROUPS else []
    if len(groups) > MAX_GROUPS:
        for group in groups:
            group.notes.append(
                f"{len(groups)} exact keys are too many to compare; only equal keys are joined"
            )
    made = [_cluster(part) for part in _joined(groups, _certain(edges))]
    return sorted(made, key=lambda c: (-len(c.members), c.key))


def _exact(samples: Iterable[Sample]) -> list[_Group]:
    by_key: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in sorted(samples, key=lambda s: s.id):
        by_key[sample.bug_key].append(sample)
    return [_group(key, members) for key, members in sorted(by_key.items())]


def _group(key: str, members: list[Sample]) -> _Group:
    stacks = [sample.stack for sample in members]
    return _Group(
        key,
        members,
        max((telling_names(stack) for stack in stacks), key=lambda names: (len(names), names), default=()),
        any(recurses(stack) for stack in stacks),
        frozenset(sample.site_key for sample in members if sample.site_key),
    )


def _edges(groups: Sequence[_Group]) -> list[_Edge]:
    found = []
    for left, right in combinations(groups, 2):
        edge = _alike(left, right)
        if edge is None:
            continue
        contradiction = _contradicts(left, right)
        if contradiction is None:
            found.append(edge)
        else:
            left.notes.append(f"kept apart from {right.key}: {edge.why}, but {contradiction}")
            right.notes.append(f"kept apart from {left.key}: {edge.why}, but {contradiction}")
    return sorted(found, key=lambda e: (-e.score, e.left.key, e.right.key))


def _alike(left: _Group, right: _Group) -> _Edge | None:
    if left.sites & right.sites:
        return _Edge(2.0, left, right, "the same instruction of the same build")
    short = min(left, right, key=lambda group: len(group.names))
    if len(short.names) < (MIN_RECURSIVE if left.recursive and right.recursive else MIN_NAMES):
        return None
    if not anchored(left.names, right.names):
        return None
    score = likeness(left.names, right.names)
    return (
        _Edge(score, left, right, f"{score:.2f} of the weight of their frames is common")
        if score >= JOIN
        else None
    )


def _contradicts(left: _Group, right: _Group) -> str | None:
    """Why the two cannot be one bug, whatever their frames say; None when nothing speaks against it."""
    one, other = left.first, right.first
    if one.defect and other.defect and one.defect != other.defect:
        return f"the defects are {one.defect} and {other.defect}"
    if one.handler and other.handler and one.handler != other.handler:
        return f"the handlers are {one.handler} and {other.handler}"
    if _family(one.class_) != _family(other.class_):
        return f"the classes are {one.class_} and {other.class_}"
    named, plain = (one, other) if one.defect else (other, one)
    if named.defect and not plain.defect and plain.handler:
        return f"one is {named.defect} and the other, with its handler known, was not judged to be"
    return None


def _family(class_: str) -> str:
    return "memory" if class_ in MEMORY else "abort" if class_ in ABORT else class_


def _certain(edges: Sequence[_Edge]) -> list[_Edge]:
    """Without those of a group that fits two groups which contradict each other."""
    beside: defaultdict[str, list[_Group]] = defaultdict(list)
    groups = {group.key: group for edge in edges for group in (edge.left, edge.right)}
    for edge in edges:
        beside[edge.left.key].append(edge.right)
        beside[edge.right.key].append(edge.left)
    torn = set()
    for key, others in beside.items():
        pair = next(((a, b) for a, b in combinations(others, 2) if _contradicts(a, b)), None)
        if pair is not None:
            torn.add(key)
            why = _contradicts(*pair)
            groups[key].notes.append(
                f"fits {pair[0].key} and {pair[1].key} alike, but {why}; joined to neither"
            )
    return [edge for edge in edges if edge.left.key not in torn and edge.right.key not in torn]


def _joined(groups: Sequence[_Group], edges: Sequence[_Edge]) -> list[list[_Group]]:
    part = {group.key: [group] for group in groups}
    for edge in edges:
        left, right = part[edge.left.key], part[edge.right.key]
        if left is right or any(_contradicts(a, b) for a in left for b in right):
            continue
        edge.right.notes.append(f"joined {edge.left.key} and {edge.right.key}: {edge.why}")
        left += right
        part.update((group.key, left) for group in right)
    return list({id(members): members for members in part.values()}.values())


def _cluster(groups: list[_Group]) -> Cluster:
    groups = sorted(groups, key=lambda group: group.standing)
    counted = [f"{len(group.samples)} with the key {group.key}" for group in groups]
    notes = [note for group in groups for note in group.notes]
    said = [printable(line) for line in (*counted, *dict.fromkeys(notes))]
    return Cluster(
        key=groups[0].key,
        members=tuple(sample.id for group in groups for sample in group.samples),
        keys=tuple(group.key for group in groups),
        explain=tuple(said[:SAID]),
    )
