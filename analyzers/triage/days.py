"""Days told apart where no clock compares: a kernel's text names no year, a short journal no zone.

Only a distance that no zone and no change to summer time explains counts, so a fault of the same day is never
excluded by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.evidence import Evidence
from analyzers.logs.calendar import calendar_distance, calendar_of
from analyzers.triage.lives import Life

CALENDAR = "calendar"  # in the data of a fact whose line was stamped with a day and no year
# Zones lie from 12 hours behind UTC to 14 before it: a container counts in UTC beside a host that does not.
ZONE_S = 14 * 3600.0
SUMMER_S = 3700.0  # two lines of one text differ by summer time alone


def later_by(one: Evidence, other: Evidence) -> float | None:
    """Seconds that ``one`` is surely later (negative: earlier) than ``other``; 0 where zones may explain
    the distance, None where either names no day."""
    mine, theirs = _day(one), _day(other)
    if mine is None or theirs is None:
        return None
    apart = calendar_distance(mine, theirs)
    slack = _slack(one, other)
    return max(apart - slack, 0.0) if apart > 0 else min(apart + slack, 0.0)


def begins_after(life: Life, item: Evidence) -> bool:
    """The life began on another day after the fact."""
    first = _dated(life.items)
    return bool(first) and (later_by(first[0], item) or 0.0) > 0


def begins_before(life: Life, item: Evidence) -> bool:
    """The life began on another day before the fact."""
    first = _dated(life.items)
    return bool(first) and (later_by(item, first[0]) or 0.0) > 0


def went_on_after(life: Life, item: Evidence) -> bool:
    """The life printed something on a day after the fact's."""
    lines = _dated(life.items)
    return bool(lines) and (later_by(lines[-1], item) or 0.0) > 0


def _dated(items: Sequence[Evidence]) -> list[Evidence]:
    return [item for item in items if _day(item) is not None]


def _day(item: Evidence) -> float | None:
    told = item.data.get(CALENDAR)
    if isinstance(told, (int, float)):
        return float(told)
    return calendar_of(item.wall) if item.wall is not None else None


def _slack(one: Evidence, other: Evidence) -> float:
    if not any(CALENDAR in item.data for item in (one, other)):
        return 0.0
    texts = {item.source.rpartition(":")[0] for item in (one, other)}
    return SUMMER_S if all(CALENDAR in item.data for item in (one, other)) and len(texts) == 1 else ZONE_S
