"""The quick way over a block: when a single stream goes on and no process starts in it.

Then only the counts and the last lines of each group matter, so a dense log costs little more than a
sparse one. Anything unusual is left to the careful way, line by line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analyzers.logs.keep import FALL_BACK, LAST_KEPT, RAW_KEPT, Kept, LifeState
from analyzers.logs.prefix import Prefix, strip
from analyzers.logs.recognise import stamp_of
from analyzers.logs.shapes import Judged
from analyzers.logs.telling import SLEEP, TASK
from analyzers.logs.text import decode

Tails = dict[str, list[int]]  # group -> indices of lines in a block

_QUICK = frozenset(
    {f"{SLEEP}/{event}" for event in ("enter-sleep", "exit-sleep", "loading", "loaded")}
    | {f"{TASK}/{e}" for e in ("task-launched", "task-done", "task-cancelled", "slots-idle", "request")}
)


def stream_of(judged: Judged) -> Prefix | None:
    """The wrappers of the only stream in the block; None when there may be several."""
    first = min(map(judged.labels.index, judged.counts))
    if not any(label.endswith("/w") for label in judged.counts):
        return Prefix()
    if not all(label.endswith("/w") for label in judged.counts):
        return None
    text = decode(judged.pick([first])[first])
    prefix, body = strip(text)
    return prefix if _everywhere(judged, prefix, text[: len(text) - len(body)]) else None


def _everywhere(judged: Judged, prefix: Prefix, head: str) -> bool:
    """True when every line of the block carries the name (and PID) that stands in ``head``."""
    if prefix.name is None or prefix.port is not None:
        return False
    token = head[max(head.rfind(prefix.name), 0) :].encode()
    return judged.block.count(token) >= len(judged.shapes) - judged.shapes.count(b"")


def take_block(life: LifeState, first_line: int, judged: Judged) -> bool:
    """Count the block and keep its last lines; False, and nothing done, when it needs the careful way."""
    events = Counter[str]()
    for label, count in judged.counts.items():
        events[label.removesuffix("/w")] += count
    groups = {label.partition("/")[0] for label in events}
    if not events.keys() <= _QUICK or not life.settled(groups) or _cancels_asleep(life, events):
        return False
    tails = last_of(judged)
    ends = min(map(judged.labels.index, judged.counts)), max(at[-1] for at in tails.values())
    lines = judged.pick({*ends, *(at for places in tails.values() for at in places)})
    if not _rises(life, lines[ends[0]], lines[ends[1]]):
        return False
    _take(life, first_line, judged, tails, lines)
    return True


def _cancels_asleep(life: LifeState, events: Counter[str]) -> bool:
    return f"{TASK}/task-cancelled" in events and bool(life.asleep_since or f"{SLEEP}/enter-sleep" in events)


def _rises(life: LifeState, first: bytes, last: bytes) -> bool:
    start, end = stamp_of(first), stamp_of(last)
    if start is None or end is None:
        return start is None and end is None
    if end < start or (life.last_elapsed is not None and start < life.last_elapsed - FALL_BACK):
        return False
    life.last_elapsed = end
    life.recent.extend((start, end))
    return True


def _take(life: LifeState, first_line: int, judged: Judged, tails: Tails, lines: dict[int, bytes]) -> None:
    for label, count in judged.counts.items():
        life.counts[label.split("/")[1]] += count
    for group, places in tails.items():
        total = sum(n for label, n in judged.counts.items() if label.startswith(group + "/"))
        base = life.groups[group].count + total - len(places)
        kept = [
            Kept(first_line + at, lines[at][:RAW_KEPT], group, judged.labels[at].split("/")[1], base + n)
            for n, at in enumerate(places)
        ]
        life.add_many(group, kept, total)
    life.progressed = True


def last_of(judged: Judged) -> Tails:
    """Indices of the last LAST_KEPT telling lines of each group, rising."""
    by_group: dict[str, Counter[str]] = {}
    for label, count in judged.counts.items():
        by_group.setdefault(label.partition("/")[0], Counter())[label] = count
    return {
        group: _few(judged.labels, counts) if counts.total() <= LAST_KEPT else _many(judged.labels, counts)
        for group, counts in by_group.items()
    }


def _few(labels: Sequence[str], counts: Counter[str]) -> list[int]:
    places = []
    for label, count in counts.items():
        at = -1
        for _ in range(count):
            at = labels.index(label, at + 1)
            places.append(at)
    return sorted(places)


def _many(labels: Sequence[str], wanted: Counter[str]) -> list[int]:
    places: list[int] = []
    for at in range(len(labels) - 1, -1, -1):
        if labels[at] in wanted:
            places.append(at)
            if len(places) == LAST_KEPT:
                break
    return places[::-1]
