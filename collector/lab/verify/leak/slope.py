"""A straight line through a few points, and how sure its slope is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z = 1.959964  # standard normal quantile at 97.5 %
FEWEST = 4  # points: with fewer the interval is wider than any figure it could bound


@dataclass(frozen=True)
class Slope:
    """Rise per step with its 95 % interval, in the unit of the values."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def slope_of(values: Sequence[float]) -> Slope | None:
    """Least squares over equally spaced ``values``; None for fewer than four."""
    count = len(values)
    if count < FEWEST:
        return None
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((at - middle) ** 2 for at in range(count))
    rise = sum((at - middle) * (value - mean) for at, value in enumerate(values)) / spread
    rest = sum((value - mean - rise * (at - middle)) ** 2 for at, value in enumerate(values))
    half = student(count - 2) * math.sqrt(rest / (count - 2) / spread)
    return Slope(rise, rise - half, rise + half)


def student(freedom: int) -> float:
    """Student's t at 97.5 %, by the expansion in powers of 1/freedom (Abramowitz and Stegun 26.7.5)."""
    first = (Z**3 + Z) / 4
    second = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    third = (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384
    fourth = (79 * Z**9 + 776 * Z**7 + 1482 * Z**5 - 1920 * Z**3 - 945 * Z) / 92160
    return Z + first / freedom + second / freedom**2 + third / freedom**3 + fourth / freedom**4
