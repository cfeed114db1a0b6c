"""Several incidents as one table: what each line says, and how many lines are enough, in every rendering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.contracts.report import Death, Incident, Report
from analyzers.render.frames import short_name
from analyzers.render.moments import duration, wall_text

MAX_GROUPS = 12  # groups in a terminal: more do not fit on two screens
MAX_DEATHS = 24  # lines of deaths over all groups in a terminal; one group shows a third of them at most
FEWEST, MOST = 2, 8  # lines of one group, whatever the others take
MAX_PIDS = 6
MAX_FRAMES = 4  # top frames that are named in a group's line
NAMELESS = "operator"
CONFIDENCES = ("proven", "strong", "weak", "undetermined")


@dataclass(frozen=True)
class Shown:
    """One group, and which of its deaths have a line of their own. ``left_out`` of them have none."""

    number: int
    group: Incident
    deaths: tuple[Death, ...]

    @property
    def left_out(self) -> int:
        return max(count(self.group) - len(self.deaths), 0) if self.group.deaths else 0


def count(group: Incident) -> int:
    return max(group.count, len(group.deaths))


def total(report: Report) -> int:
    """Incidents over all groups; 0 for a report about a single one."""
    return sum(count(group) for group in report.incidents)


def several(report: Report) -> bool:
    return total(report) > 1


def overview(report: Report) -> str:
    """The sentence above the table, also for a report whose writer gave none."""
    kinds = len(report.incidents)
    counted = f"{kinds} kinds of incident, {total(report)} in all"
    return report.overview or (counted if kinds > 1 else f"{total(report)} incidents of one kind")


def listed(report: Report, most_groups: int = MAX_GROUPS, most_deaths: int = MAX_DEATHS) -> list[Shown]:
    """The groups to show, each with the deaths to show: the first ones, and the one the verdict is about.

    That one's group is always among them.
    """
    groups = list(enumerate(report.incidents, 1))
    shown = groups[:most_groups]
    mine = [pair for pair in groups[most_groups:] if _chosen(pair[1], report)]
    if mine:
        shown[-1] = mine[0]
    room = max(FEWEST, min(most_deaths // max(len(shown), 1), max(MOST, most_deaths // 3)))
    return [Shown(number, group, _deaths(group, report, room)) for number, group in shown]


def _deaths(group: Incident, report: Report, room: int) -> tuple[Death, ...]:
    first = group.deaths[:room]
    if len(group.deaths) == room + 1:
        return tuple(group.deaths)  # a line that says that one is left out is no shorter than the one
    return (*first, *(death for death in group.deaths[room:] if death.number == report.incident))


def _chosen(group: Incident, report: Report) -> bool:
    return any(death.number == report.incident for death in group.deaths)


def chosen(report: Report) -> Death | None:
    """The death that the verdict is about."""
    everyone = (death for group in report.incidents for death in group.deaths)
    return next((death for death in everyone if death.number == report.incident), None)


def confidence(group: Incident) -> str:
    """`proven`, or `proven 5, strong 3` where a group's deaths differ; empty when none is listed."""
    found = [death.confidence for death in group.deaths]
    ids = sorted(set(found), key=lambda name: CONFIDENCES.index(name) if name in CONFIDENCES else len(found))
    return ids[0] if len(ids) == 1 else ", ".join(f"{name} {found.count(name)}" for name in ids)


def frames(group: Incident) -> str:
    """`tokenize 5, tokenizer_st_partition 3`, most frequent first."""
    named = [f"{_leaf(frame.function)} {frame.count}" for frame in group.top_frames[:MAX_FRAMES]]
    return ", ".join(named) + _and_more(len(group.top_frames) - MAX_FRAMES)


def pids(group: Incident) -> str:
    numbers = group.pids or [death.pid for death in group.deaths if death.pid is not None]
    return ", ".join(str(pid) for pid in numbers[:MAX_PIDS]) + _and_more(len(numbers) - MAX_PIDS)


def _and_more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""


def period(group: Incident) -> str:
    """First and last time of a group: `2026-12-01 04:00:05 to 06:12:44 UTC (2 h 12 min)`, or empty."""
    times = _times([group])
    if not times:
        return ""
    begin, end = (wall_text(at, "%Y-%m-%d %H:%M:%S") for at in (min(times), max(times)))
    dated = len(times) == count(group)
    note = "" if dated else f", {len(times)} of {count(group)} dated"
    if begin == end:
        return f"{begin} UTC{note}"
    last = end[11:] if end[:10] == begin[:10] else end
    return f"{begin} to {last} UTC ({duration(max(times) - min(times))}{note})"


def _times(groups: Sequence[Incident]) -> list[float]:
    known = (death.at for group in groups for death in group.deaths)
    return [at for at in known if at is not None and math.isfinite(at)]


def time_pattern(report: Report) -> str:
    """How the lines write their times (UTC): without the date when all are of one day, with milliseconds
    when two fall into one second."""
    times = _times(report.incidents)
    days = {wall_text(at, "%Y-%m-%d") for at in times}
    seconds = {math.floor(at) for at in times}
    day = "" if len(days) < 2 else "%m-%d " if len({text[:4] for text in days}) < 2 else "%Y-%m-%d "
    return f"{day}%H:%M:%S" if len(seconds) == len(set(times)) else f"{day}%H:%M:%S.mmm"


def when(death: Death, pattern: str) -> str:
    return "?" if death.at is None or not math.isfinite(death.at) else wall_text(death.at, pattern)


def frame(death: Death) -> str:
    return _leaf(death.top_frame) if death.top_frame else "?"


def _leaf(function: str) -> str:
    """The name's last part, with the one before it where alone it names nothing (a lambda, an operator)."""
    *scope, name = short_name(function).split("::")
    return f"{scope[-1]}::{name}" if scope and not (name[:1].isalpha() and NAMELESS not in name) else name


def title(group: Incident) -> str:
    """`SEGV-UAF-SLEEP, D1, proven, under handle_slots`: what the group's deaths are, how sure that is, and
    the route handler where they share one: two groups of one defect differ by it."""
    sure = confidence(group)
    parts = (group.class_, group.defect or "", "" if sure == group.class_.lower() else sure, _under(group))
    return ", ".join(part for part in parts if part)


def _under(group: Incident) -> str:
    handlers = {death.handler for death in group.deaths}
    only = next(iter(handlers)) if len(handlers) == 1 else None
    return f"under {_leaf(only)}" if only else ""


def sure(death: Death) -> str:
    return "?" if death.confidence == "undetermined" else death.confidence


def subject(report: Report) -> str:
    """Which of the incidents the verdict is about: `Incident 3 of 8: PID 3142, core.3142`."""
    death = chosen(report)
    told = [f"PID {death.pid}"] if death and death.pid is not None else []
    told += [", ".join(death.inputs[:2])] if death and death.inputs else []
    return f"Incident {report.incident} of {total(report)}" + (f": {', '.join(told)}" if told else "")
