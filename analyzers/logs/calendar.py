"""Day and time of a stamp that names no year: enough to tell two days apart, never an order of seconds."""

from __future__ import annotations

import re
from datetime import datetime, timezone

DAY = 86_400.0
YEAR = 366 * DAY  # of a leap year: every day of every year has its place
# How many days of a leap year are before each month.
_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
# First letters of a month, as journalctl and syslog print it in the languages that are met most.
_MONTHS = {
    **dict.fromkeys(("jan", "ene", "gen"), 1),
    **dict.fromkeys(("feb", "fév", "fev"), 2),
    **dict.fromkeys(("mar", "mär", "mrz"), 3),
    **dict.fromkeys(("apr", "avr", "abr"), 4),
    **dict.fromkeys(("may", "mai", "mag"), 5),
    **dict.fromkeys(("jun", "juin", "giu"), 6),
    **dict.fromkeys(("jul", "juil", "lug"), 7),
    **dict.fromkeys(("aug", "aoû", "ago"), 8),
    **dict.fromkeys(("sep", "set"), 9),
    **dict.fromkeys(("oct", "okt", "ott", "out"), 10),
    **dict.fromkeys(("nov",), 11),
    **dict.fromkeys(("dec", "dez", "déc", "dic"), 12),
}
_STAMP = re.compile(
    r"(?:(?P<month>[^\W\d_]{3,12}|\d{1,2}月)\.? {0,2}(?P<day>\d{1,2})"
    r"|(?P<first>\d{1,2})\.? (?P<second>[^\W\d_]{3,12})\.?)"
    r" (?:\d{4} )?(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second_>\d\d))?"
)


def calendar_seconds(stamp: str) -> float | None:
    """Seconds from the first of January to ``Nov 30 10:00:05`` and its kin; None for anything else."""
    match = _STAMP.search(stamp)
    if match is None:
        return None
    month = _month(match["month"] or match["second"])
    day = int(match["day"] or match["first"])
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second_"))
    if month is None or not 1 <= day <= 31 or hour > 23 or minute > 59 or second > 60:
        return None
    return (_BEFORE[month - 1] + day - 1) * DAY + hour * 3600.0 + minute * 60.0 + second


def calendar_of(wall: float) -> float | None:
    """The same of Unix seconds, in UTC; None for a number that is no date."""
    try:
        at = datetime.fromtimestamp(wall, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    seconds = at.hour * 3600.0 + at.minute * 60.0 + at.second
    return (_BEFORE[at.month - 1] + at.day - 1) * DAY + seconds


def calendar_distance(one: float, other: float) -> float:
    """Seconds from ``other`` to ``one``, the short way around the year."""
    return (one - other + YEAR / 2) % YEAR - YEAR / 2


def _month(word: str) -> int | None:
    if word.endswith("月"):
        number = int(word[:-1])
        return number if 1 <= number <= 12 else None
    word = word.casefold()
    return _MONTHS.get(word[:4], _MONTHS.get(word[:3]))
