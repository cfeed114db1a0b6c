"""Scale, ticks and label places of a time axis: numbers only, no drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

DECADES = (1.0, 2.0, 5.0)
CLOCK_STEPS = (60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0, 43200.0)
DAY = 86400.0
SMALLEST_STEP = 1e-6  # seconds; logs count microseconds, nothing is known below
MAX_TICKS = 40
AIR = 3.0  # px between a text and what stands beside it


@dataclass(frozen=True)
class Scale:
    """Maps seconds from ``start`` to ``end`` onto x from ``left`` to ``right``."""

    start: float
    end: float
    left: float
    right: float

    @property
    def length(self) -> float:
        return max(self.end - self.start, SMALLEST_STEP)

    def x(self, at: float) -> float:
        share = (min(max(at, self.start), self.end) - self.start) / self.length
        return self.left + share * (self.right - self.left)


def step_for(length: float, wanted: int) -> float:
    """The round step, in seconds, that puts about ``wanted`` ticks on an axis of ``length`` seconds."""
    rough = max(length / max(wanted, 1), SMALLEST_STEP)
    if rough > CLOCK_STEPS[-1]:
        return DAY * _decade(rough / DAY) if rough > DAY else DAY
    if rough > CLOCK_STEPS[0] / 2:
        return next(step for step in CLOCK_STEPS if step >= rough or step == CLOCK_STEPS[-1])
    return _decade(rough)


def _decade(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next((base * power for base in DECADES if base * power >= rough), 10 * power)


def ticks(scale: Scale, wanted: int) -> tuple[float, list[float]]:
    """(step, tick times) on round numbers of the clock; never more than ``MAX_TICKS``."""
    step = step_for(scale.length, wanted)
    first = math.ceil(scale.start / step - 1e-9)
    last = math.floor(scale.end / step + 1e-9)
    return step, [number * step for number in range(first, min(last, first + MAX_TICKS) + 1)]


@dataclass(frozen=True)
class Label:
    """A placed label: ``level`` 0 is nearest the band; ``after`` says the text runs right of its mark."""

    index: int
    x: float
    level: int
    after: bool


@dataclass
class Shelves:
    """Levels of labels above a band. No label overlaps another, and no leader line crosses a label."""

    left: float
    right: float
    levels: int
    texts: list[list[tuple[float, float]]] = field(default_factory=list)
    leaders: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.texts = [[] for _ in range(self.levels)]
        self.leaders = [[] for _ in range(self.levels)]

    def place(self, index: int, x: float, width: float, after: bool) -> Label | None:
        """The nearest free place for a label of ``width`` at ``x``, on the asked side first; None if full."""
        for side in (after, not after):
            begin, end = (x + AIR, x + width) if side else (x - width, x - AIR)
            if begin < self.left or end > self.right:
                continue
            for level in range(self.levels):
                if self._free(level, begin, end) and self._reaches(level, x):
                    self.texts[level].append((begin, end))
                    for below in range(level):
                        self.leaders[below].append(x)
                    return Label(index, x, level, side)
        return None

    def _free(self, level: int, begin: float, end: float) -> bool:
        clear = all(end < low - AIR or begin > high + AIR for low, high in self.texts[level])
        return clear and not any(begin < x < end for x in self.leaders[level])

    def _reaches(self, level: int, x: float) -> bool:
        """True when a line at ``x`` gets from ``level`` down to the band without crossing a text."""
        return not any(low < x < high for below in range(level) for low, high in self.texts[below])


def place_all(points: Sequence[tuple[float, float]], shelves: Shelves) -> list[Label]:
    """Places (x, width) labels: each half of the axis is filled from its middle outwards.

    Right half: text runs left, so each leader stands right of the labels below it. Left half mirrored.
    """
    middle = (shelves.left + shelves.right) / 2
    order = sorted(range(len(points)), key=lambda index: points[index][0])
    right = [index for index in order if points[index][0] >= middle]
    left = [index for index in reversed(order) if points[index][0] < middle]
    placed: list[Label | None] = []
    for index in (*right, *left):
        x, width = points[index]
        placed.append(shelves.place(index, x, width, after=x < middle))
    return [label for label in placed if label is not None]
