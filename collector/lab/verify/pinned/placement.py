"""How far the sleep came from where it was wanted, over many trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

# The last few corrections count: load on the machine changes, and one outlier must not move a median.
REMEMBERED = 9
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True)
class Placement:
    """Errors of the sleep line's arrival against the wanted moment, seconds: positive is late.

    ``median`` is of the distances, without sign; ``low`` and ``high`` are the 10 % and 90 % points with it.
    """

    count: int
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        span = f"10-90 %: {self.low * 1000:+.1f} to {self.high * 1000:+.1f}"
        return f"placement error median {self.median * 1000:.1f} ms ({span}, {self.count} seen)"


def placement(errors: Sequence[float]) -> Placement | None:
    """None without any error that could be measured."""
    if not errors:
        return None
    ordered = sorted(errors)
    distance = median(abs(error) for error in errors)
    return Placement(len(errors), distance, quantile(ordered, LOW), quantile(ordered, HIGH))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of ``ordered`` lies, interpolated between neighbours."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


class Correction:
    """What to take off a moment so that the sleep line arrives on it: the median of the last delays.

    ``rehearsed`` delays had nothing in flight; a busy server answers later, so delays seen in trials replace
    them, and ``forget`` drops those again when another kind of request comes.
    """

    def __init__(self, rehearsed: Sequence[float]) -> None:
        self._rehearsed = list(rehearsed)
        self._seen: list[float] = []

    @property
    def seconds(self) -> float:
        used = self._seen[-REMEMBERED:] or self._rehearsed
        return median(used) if used else 0.0

    def learn(self, delay: float) -> None:
        self._seen.append(delay)

    def forget(self) -> None:
        self._seen.clear()
