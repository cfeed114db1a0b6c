"""One life in two texts: a journal and the container's own log, or a file and what was copied from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from analyzers.contracts.evidence import Evidence
from analyzers.triage.lives import Life
from analyzers.triage.relations import Same, same_life

Line = tuple[float | None, str]


def without_twins(
    evidence: Sequence[Evidence], lives: Sequence[Life]
) -> tuple[list[Evidence], list[Life], list[Evidence]]:
    """(evidence, lives, second copies): each line once, in the text that names the process or holds most.

    Lines that only the other text holds are kept, in their place by the server's own clock.
    """
    kept: list[Life] = []
    copies: list[Evidence] = []
    items = list(evidence)
    for life in sorted(
        lives, key=lambda one: (one.pid is None, one.carrier is None, -len(one.items), one.name)
    ):
        at = next((n for n, one in enumerate(kept) if same_life(one, life) is Same.YES), None)
        if at is None:
            kept.append(life)
            continue
        known = {_line(item) for item in kept[at].items}
        copies += [item for item in life.items if _line(item) in known]
        more = [item for item in life.items if _line(item) not in known]
        merged = replace(kept[at], items=_merged(kept[at].items, more))
        items = _in_place(items, kept[at].items, life.items, merged.items)
        kept[at] = merged
    return items, _as_given(lives, kept), copies


def _line(item: Evidence) -> Line:
    return item.elapsed, item.text


def _merged(items: Sequence[Evidence], more: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """By the server's clock; a line without a stamp stays behind the one before it."""
    if not more:
        return tuple(items)
    dated: list[tuple[float, Evidence]] = []
    for part in (items, more):
        last = 0.0
        for item in part:
            last = item.elapsed if item.elapsed is not None else last
            dated.append((last, item))
    return tuple(item for _, item in sorted(dated, key=lambda pair: pair[0]))


def _in_place(
    evidence: Sequence[Evidence],
    mine: Iterable[Evidence],
    theirs: Iterable[Evidence],
    merged: Sequence[Evidence],
) -> list[Evidence]:
    own = {item.id for item in (*mine, *theirs)}
    first = next((at for at, item in enumerate(evidence) if item.id in own), 0)
    here = {item.id for item in evidence}
    before = [item for item in evidence[:first] if item.id not in own]
    after = [item for item in evidence[first:] if item.id not in own]
    return [*before, *(item for item in merged if item.id in here), *after]


def _as_given(lives: Sequence[Life], kept: Sequence[Life]) -> list[Life]:
    """In the order in which the lives were given."""
    order = {item.id: at for at, life in enumerate(lives) for item in life.items}
    return sorted(
        kept, key=lambda life: min((order.get(item.id, len(lives)) for item in life.items), default=0)
    )
