"""When a line was written, by the server's own stamp: a busy machine reads the pipe milliseconds later."""

from __future__ import annotations

import re
from collections.abc import Iterable

from collector.lab.reference.output import Line

# minutes.seconds.milliseconds.microseconds since the process's logger started; builds since about b9272.
_STAMP = re.compile(r"(\d{1,6})\.(\d\d)\.(\d{3})\.(\d{3}) ")


def stamp(text: str) -> float | None:
    """Seconds since the logger started, or None for a line without a stamp."""
    found = _STAMP.match(text)
    if found is None:
        return None
    minutes, seconds, millis, micros = map(int, found.groups())
    return minutes * 60 + seconds + millis / 1e3 + micros / 1e6


def written(line: Line, others: Iterable[Line]) -> float:
    """CLOCK_MONOTONIC seconds at which ``line`` was written; its arrival where lines bear no stamp.

    The quickest of ``others`` (lines of the same process, this one among them) tells how the two clocks stand
    to each other: no line arrives before it is written, and of hundreds one arrives at once.
    """
    own = stamp(line.text)
    apart = [each.mono - told for each in others if (told := stamp(each.text)) is not None]
    return line.mono if own is None or not apart else min(line.mono, own + min(apart))
