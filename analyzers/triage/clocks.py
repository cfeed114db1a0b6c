"""How the clocks of one incident's sources stand to each other, from moments that two of them name.

- A log line carries the stamp of the server's own logger and arrives at journald, docker or syslog at once or
  late, never early: the smallest distance of the two is the nearest to the true one.
- An entry of a journal names the wall clock and CLOCK_MONOTONIC together. Their distance is constant, unless
  the wall clock was set or the machine was suspended (CLOCK_MONOTONIC stands still then).
- One line in two sources (a kernel log and a journal, a container's log and the host's) compares theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import KernelFact
from analyzers.contracts.report import ClockOffset

# Slewing moves the wall clock by at most half a millisecond a second (adjtime(2)); more than that is a step.
SLEW = 0.0005
WHOLE_SECOND = 1.0
STEP_S = 0.25  # below it a step changes no order that is told here
CLOCKS = ("wall", "mono")
WORDS = {"wall": "wall clock", "mono": "CLOCK_MONOTONIC", "elapsed": "the server's own clock"}

Pair = tuple[float, float]


@dataclass(frozen=True)
class Step:
    """The wall clock moved by ``seconds`` against CLOCK_MONOTONIC, first seen at ``wall``."""

    seconds: float
    wall: float
    source: str


def input_of(evidence: Evidence, names: Sequence[str]) -> str | None:
    """The input that a fact was read from: its source begins with the name, and names may hold colons."""
    source = evidence.source
    found = [name for name in names if source == name or source.startswith((f"{name}:", f"{name}/"))]
    return max(found, key=len, default=None)


def clock_offsets(evidence: Sequence[Evidence], names: Sequence[str]) -> list[ClockOffset]:
    """Every comparison that the incident's facts allow; ``names`` are those of the inputs."""
    by_input: dict[str, list[Evidence]] = defaultdict(list)
    for item in evidence:
        by_input[input_of(item, names) or item.source.partition(":")[0]].append(item)
    found = [offset for name, items in by_input.items() for offset in _within(name, items)]
    return [*found, *_between(by_input)]


def wall_steps(evidence: Sequence[Evidence]) -> list[Step]:
    """Where the wall clock jumped against CLOCK_MONOTONIC within one boot, in the order of the latter."""
    boots: dict[str | None, list[Evidence]] = defaultdict(list)
    for item in evidence:
        if item.wall is not None and item.mono is not None:
            boots[item.incarnation.boot_id].append(item)
    return [step for items in boots.values() for step in _steps(items)]


def _steps(items: Sequence[Evidence]) -> Iterator[Step]:
    ordered = sorted(items, key=lambda item: item.mono or 0.0)
    for before, after in pairwise(ordered):
        moved = _apart(after) - _apart(before)
        passed = (after.mono or 0.0) - (before.mono or 0.0)
        if abs(moved) > STEP_S + SLEW * passed:
            yield Step(moved, after.wall or 0.0, after.source)


def _held(items: Sequence[Evidence]) -> tuple[str, ...]:
    """Without the wall clock where it jumped: it has no one distance to anything."""
    return tuple(clock for clock in CLOCKS if clock != "wall") if wall_steps(items) else CLOCKS


def _apart(item: Evidence) -> float:
    return (item.wall or 0.0) - (item.mono or 0.0)


def _within(name: str, items: Sequence[Evidence]) -> Iterator[ClockOffset]:
    """The clocks that lines of one input name together."""
    for clock in _held(items):
        pairs = [
            (at, item.elapsed)
            for item in items
            if item.elapsed is not None and (at := getattr(item, clock)) is not None
        ]
        if len(pairs) > 1:
            yield _delivered(clock, name, pairs)
    both = [item for item in items if item.wall is not None and item.mono is not None]
    last = both[-1].incarnation.boot_id if both else None
    both = [item for item in both if item.incarnation.boot_id == last]  # CLOCK_MONOTONIC is of one boot
    if len(both) > 1:
        yield _together(name, both)


def _delivered(clock: str, name: str, pairs: Sequence[Pair]) -> ClockOffset:
    """The stamp of arrival against the line's own."""
    apart = sorted(at - elapsed for at, elapsed in pairs)
    late = apart[-1] - apart[0]
    moved = jumped(pairs)
    said = f"{WORDS[clock]} at which {name} got {len(pairs)} lines, against the stamps in them"
    said += "; a line arrives at once or late, never early: this is the smallest distance, "
    said += f"the latest line came {late:.3f} s after it"
    resolution = _resolution(pairs)
    if resolution:
        said += "; its stamps are whole seconds, and nothing finer is known"
    if moved is not None:
        said += f"; between two lines it moved by {moved:+.3f} s for good: a clock was set, stood still or "
        said += "began anew, so nothing was placed by it"
    return ClockOffset(
        clock=f"{clock} ({name})",
        to=f"elapsed ({name})",
        seconds=round(apart[0], 6),
        spread=round(max(resolution, apart[len(apart) // 2] - apart[0]), 6),
        pairs=len(pairs),
        explain=said,
    )


def _resolution(pairs: Sequence[Pair]) -> float:
    """One second where every stamp of arrival is a whole one (journalctl's short forms), else 0."""
    return WHOLE_SECOND if all(float(at).is_integer() for at, _ in pairs) else 0.0


def jumped(pairs: Sequence[Pair]) -> float | None:
    """By how much the distance moved at one place, with every line before it on one side of every line after
    it; None for delays, which come and go."""
    apart = [at - elapsed for at, elapsed in sorted(pairs, key=lambda pair: pair[1])]
    step = STEP_S + _resolution(pairs)
    low, high = list(accumulate(apart, min)), list(accumulate(apart, max))
    low_after, high_after = list(accumulate(apart[::-1], min)), list(accumulate(apart[::-1], max))
    for cut in range(2, len(apart) - 1):
        least, most = low_after[len(apart) - cut - 1], high_after[len(apart) - cut - 1]
        up, down = least - high[cut - 1], low[cut - 1] - most
        wide = max(high[cut - 1] - low[cut - 1], most - least)
        if max(up, down) > step and max(up, down) > wide:
            return least - low[cut - 1]
    return None


def _together(name: str, items: Sequence[Evidence]) -> ClockOffset:
    apart = [_apart(item) for item in items]
    spread = max(apart) - min(apart)
    steps = wall_steps(items)
    said = f"both stand in {len(items)} entries of {name}"
    for step in steps:
        said += f"; the wall clock jumped by {step.seconds:+.3f} s before {step.source}"
    if steps:
        said += ": it was set, or the machine was suspended; order and joins follow CLOCK_MONOTONIC"
    return ClockOffset(
        clock=f"wall ({name})",
        to=f"mono ({name})",
        seconds=round(sorted(apart)[len(apart) // 2], 6),
        spread=round(spread, 6),
        pairs=len(items),
        explain=said,
    )


def _between(by_input: dict[str, list[Evidence]]) -> Iterator[ClockOffset]:
    """Two inputs that hold the same lines."""
    names = sorted(by_input)
    for at, name in enumerate(names):
        for other in names[at + 1 :]:
            for clock in CLOCKS:
                pairs = list(_same_lines(by_input[name], by_input[other], clock))
                if pairs:
                    yield _compared(clock, name, other, pairs, by_input)


def _same_lines(mine: Sequence[Evidence], theirs: Sequence[Evidence], clock: str) -> Iterator[Pair]:
    keyed = {key: at for item in theirs if (key := _key(item)) and (at := getattr(item, clock)) is not None}
    for item in mine:
        key, at = _key(item), getattr(item, clock)
        if key is not None and at is not None and key in keyed:
            yield at, keyed[key]


def _key(item: Evidence) -> Hashable | None:
    """What makes a line the same one elsewhere: a kernel line's numbers, or the server's own stamp."""
    if item.kind == KernelFact.KIND:
        told = tuple(item.data.get(name) for name in ("shape", "tid", "address", "ip", "sp"))
        return told if item.data.get("tid") is not None else None
    return (item.elapsed, item.text) if item.elapsed is not None else None


def _compared(
    clock: str, name: str, other: str, pairs: Sequence[Pair], by_input: dict[str, list[Evidence]]
) -> ClockOffset:
    apart = sorted(mine - theirs for mine, theirs in pairs)
    kernel = clock == "mono" and all(item.kind == KernelFact.KIND for item in by_input[name])
    return ClockOffset(
        clock=f"{'kernel' if kernel else clock} ({name})",
        to=f"{clock} ({other})",
        seconds=round(apart[len(apart) // 2], 6),
        spread=round(apart[-1] - apart[0], 6),
        pairs=len(pairs),
        explain=f"{len(pairs)} lines stand in both, each with the time that its own source gave it",
    )


Mover = Callable[[Evidence, str], float | None]


def mover(evidence: Sequence[Evidence]) -> Mover:
    """A function that puts a fact on a clock (wall | mono) that it does not name, by way of one that it does.

    The function returns None where no offset is known, or where the clocks jumped against each other.
    """
    apart = _offsets(evidence)

    def moved(item: Evidence, clock: str) -> float | None:
        own = getattr(item, clock)
        if own is not None:
            return float(own)
        for known in ("mono", "wall", "elapsed"):
            at, offset = getattr(item, known), apart.get((known, clock))
            if at is not None and offset is not None:
                return float(at) + offset
        return None

    return moved


def _offsets(evidence: Sequence[Evidence]) -> dict[tuple[str, str], float]:
    """(from, to) -> seconds to add."""
    found: dict[tuple[str, str], float] = {}
    both = [_apart(item) for item in evidence if item.wall is not None and item.mono is not None]
    if both and not wall_steps(evidence):
        middle = sorted(both)[len(both) // 2]
        found["mono", "wall"], found["wall", "mono"] = middle, -middle
    for clock in _held(evidence):
        pairs = [
            (at, item.elapsed)
            for item in evidence
            if item.elapsed is not None and (at := getattr(item, clock)) is not None
        ]
        if pairs and jumped(pairs) is None:
            found["elapsed", clock] = min(at - elapsed for at, elapsed in pairs)
    return found
