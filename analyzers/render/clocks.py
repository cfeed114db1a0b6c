"""How the clocks of an incident's sources stand to each other, in words."""

from __future__ import annotations

import math
import re

from analyzers.contracts.report import ClockOffset
from analyzers.render.moments import HOUR, MILLI, duration, wall_text

NAMES = {
    "elapsed": "the log's clock",
    "mono": "the clock since boot",
    "kernel": "the kernel's clock",
    "wall": "the time of day",
}
YEAR = 31_557_600.0  # seconds; a difference above it is between a clock's zero and the calendar, no error
WHY = "Each source keeps its own clock; by these offsets their times were put on one."
_SPLIT = re.compile(r"[\s:,(]+")


def sentence(offset: ClockOffset, *, public: bool = False) -> str:
    """`the log's clock (server.log) is 0.184 s behind the journal's ±0.2 ms, from 214 common moments`.

    A clock without a date against the calendar is said by the moment of its zero. ``public`` leaves out what
    the sources are called.
    """
    one, other = _name(offset.clock, public), _name(offset.to, public)
    moments = "1 common moment" if offset.pairs == 1 else f"{offset.pairs:,} common moments"
    founded = f"{_spread(offset)}, from {moments}"
    if not math.isfinite(offset.seconds):
        return f"{one} against {other}: the offset is no number"
    if abs(offset.seconds) > YEAR:
        dated, behind = (other, one) if offset.seconds < 0 else (one, other)
        zero = wall_text(abs(offset.seconds), "%Y-%m-%d %H:%M:%S.mmm UTC")
        return f"0 of {behind} is {zero} by {dated}{founded}"
    if began := _zero_since_boot(offset):
        return f"0 of {one if began < 0 else other} is {_length(abs(began))} after boot{founded}"
    if not offset.seconds:
        return f"{one} and {other} agree{founded}"
    side = "behind" if offset.seconds < 0 else "ahead of"
    return f"{one} is {_length(abs(offset.seconds))} {side} {other}{founded}"


def _zero_since_boot(offset: ClockOffset) -> float:
    """Seconds from boot to the zero of the log's clock, negative where ``clock`` is that one; else 0."""
    kinds = [_SPLIT.split(clock.strip(), maxsplit=1)[0] for clock in (offset.clock, offset.to)]
    since_boot = {"mono", "kernel"} & set(kinds) and "elapsed" in kinds
    started = since_boot and (offset.seconds < 0) == (kinds[0] == "elapsed")
    return offset.seconds if started else 0.0


def _name(clock: str, public: bool) -> str:
    """A clock in words; what follows its kind is the source, in brackets."""
    kind, *rest = _SPLIT.split(clock.strip(), maxsplit=1)
    source = rest[0].strip() if rest else ""
    source = source[:-1] if "(" in clock[: len(clock) - len(source)] and source.endswith(")") else source
    name = NAMES.get(kind)
    if name is None:
        return "another clock" if public else clock
    return f"{name} ({source})" if source and not public else name


def _spread(offset: ClockOffset) -> str:
    if not offset.spread or not math.isfinite(offset.spread):
        return ""  # one pair leaves no interval, which is no exactness
    return f" ±{duration(abs(offset.spread) / 2)}"


def _length(seconds: float) -> str:
    """Milliseconds are kept at any length: they are what an order of moments hangs on."""
    if seconds < MILLI:
        return duration(seconds)
    if seconds < HOUR / 60:
        return f"{seconds:.3f} s"
    minutes, rest = divmod(seconds, 60.0)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days} d ' if days else ''}{hours}:{minutes:02d}:{rest:06.3f} h"
