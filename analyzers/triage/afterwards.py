"""Lines that came after a core's process was dead are of another process, whatever PID or port they name.

A PID is used again, at the latest after the next boot. The kernel's line about one of the core's threads and
the record of the core date the death; the queue's memory tells that the server ran when it took its last task
(CLOCK_MONOTONIC), so that its log began before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import CoreFact, ExitFact, LogFact, LoopFact, fact_of
from analyzers.contracts.report import Gap
from analyzers.triage.clocks import wall_steps
from analyzers.triage.days import begins_after, later_by
from analyzers.triage.faults import FATAL_SHAPES, named_in
from analyzers.triage.lives import CLOCKS, Life
from analyzers.triage.relations import NEAR_S
from analyzers.triage.subjects import Open

# A dead process prints nothing, but a busy journald may take its last lines late (0.2 s was seen).
LATE_S = 30.0
FIRST_LINES = ("init", "build-info", "listening")  # which no wake prints again


@dataclass(frozen=True)
class Dated:
    """What may be of the core's process by the clocks, and the gaps about what may not."""

    items: list[Evidence]
    lives: list[Life]
    gaps: list[Gap]


def before_the_end(incident: Open, items: Sequence[Evidence], lives: Sequence[Life]) -> Dated:
    """``items`` and ``lives`` without the lives that began, or went on, after the core's process had died."""
    clocks = _clocks(incident, items)
    told = [(life, _too_late(incident, life, items, clocks)) for life in lives]
    late = [(life, why) for life, why in told if why is not None]
    dropped = frozenset[str]().union(*(life.ids for life, _ in late))
    kept = [life for life, why in told if why is None]
    gaps = [_not_its_own(life, why) for life, why in late]
    own = [item for item in items if item.id not in dropped]
    if len(kept) == 1 and not late and _undated(incident, kept[0], items, clocks):
        return _nameless(own, kept[0], [*gaps, _which_use(incident, kept[0])])
    return Dated(own, kept, gaps)


def _clocks(incident: Open, items: Sequence[Evidence]) -> tuple[str, ...]:
    """Those that compare: no wall clock that jumped, no seconds since one of several boots."""
    boots = {item.incarnation.boot_id for item in items} - {None}
    mono = len(boots) < 2 or incident.who.boot_id is not None
    held = {"mono": mono, "wall": not wall_steps(items)}
    return tuple(clock for clock in CLOCKS if held[clock])


def _nameless(items: Sequence[Evidence], life: Life, gaps: list[Gap]) -> Dated:
    """With the life's lines as those of a log that names no process: an equal PID alone is no tie."""
    made = {item.id: _without_pid(item) for item in life.items}
    own = replace(life, items=tuple(made.values()))
    return Dated([made.get(item.id, item) for item in items], [own], gaps)


def _without_pid(item: Evidence) -> Evidence:
    return item.model_copy(update={"incarnation": item.incarnation.model_copy(update={"pid": None})})


def _too_late(incident: Open, life: Life, items: Sequence[Evidence], clocks: Sequence[str]) -> str | None:
    for clock in clocks:
        stamps = [at for item in life.items if (at := incident.at(item, clock)) is not None]
        died = max(_died(incident, items, clock), default=None)
        if stamps and died is not None:
            if stamps[0] > died + NEAR_S:
                return f"it began {stamps[0] - died:,.0f} s after the process in the core had died"
            late = max(stamps) - died
            return (
                f"it went on for {late:,.0f} s after the process in the core had died"
                if late > LATE_S
                else None
            )
    if any(begins_after(life, item) for item in _own_deaths(incident, items)):
        return "it began on a day after the process in the core had died"
    return _begun_later(incident, life, items) if "mono" in clocks else None


def _died(incident: Open, items: Sequence[Evidence], clock: str) -> Iterator[float]:
    """When the kernel or the core's record saw this very process die."""
    stamps = (incident.at(item, clock) for item in _own_deaths(incident, items))
    return (stamp for stamp in stamps if stamp is not None)


def _own_deaths(incident: Open, items: Sequence[Evidence]) -> Iterator[Evidence]:
    at = {fact.instruction_pointer for item in items if (fact := fact_of(item, CoreFact)) is not None}
    for item in items:
        kernel, end = named_in(item, FATAL_SHAPES), fact_of(item, ExitFact)
        own = kernel is not None and kernel.tid in incident.tids and (kernel.ip is None or kernel.ip in at)
        if own or (end is not None and end.by == "coredump-store"):
            yield item


def _begun_later(incident: Open, life: Life, items: Sequence[Evidence]) -> str | None:
    """A process that was not yet there when the core's took its last task."""
    tasks = [
        fact.time_last_task_ms / 1000.0
        for item in items
        if (fact := fact_of(item, LoopFact)) is not None and fact.time_last_task_ms
    ]
    first = next((item for item in life.items if _is_first(item)), None)
    began = incident.at(first, "mono") if first is not None else None
    if not tasks or began is None or began <= tasks[0] + NEAR_S:
        return None
    return f"it began {began - tasks[0]:,.0f} s after the last task of the process in the core"


def _is_first(item: Evidence) -> bool:
    fact = fact_of(item, LogFact)
    return fact is not None and fact.event in FIRST_LINES


def _not_its_own(life: Life, why: str) -> Gap:
    return Gap(
        what=f"a log of the core's own process (not {life.name})",
        why=f"{why}; what it names is used again (a PID, a port), and no line of it was counted",
        command="journalctl _PID=PID -b BOOT -o export > server.export",
    )


def _undated(incident: Open, life: Life, items: Sequence[Evidence], clocks: Sequence[str]) -> bool:
    """A sleep that only an equal PID, of some boot or other, ties to the core."""
    if not life.slept or life.pid is None or life.pid != incident.who.pid:
        return False
    mine, theirs = incident.who, life.who
    named = mine.start_time is not None and theirs.start_time is not None
    if named or (mine.boot_id is not None and theirs.boot_id is not None):
        return False
    return not (
        any(_dated(incident, life, items, clock) for clock in clocks) or _of_a_day(incident, life, items)
    )


def _of_a_day(incident: Open, life: Life, items: Sequence[Evidence]) -> bool:
    """A stamp without a year puts the life's lines on the day of the death, or near it."""
    died = list(_own_deaths(incident, items))
    return any(later_by(item, line) == 0.0 for item in died for line in life.items[-1:])


def _dated(incident: Open, life: Life, items: Sequence[Evidence], clock: str) -> bool:
    stamped = any(incident.at(item, clock) is not None for item in life.items)
    return stamped and any(True for _ in _died(incident, items, clock))


def _which_use(incident: Open, life: Life) -> Gap:
    return Gap(
        what=f"whether {life.name} is of the same use of PID {incident.who.pid}",
        why="a PID is used again, at the latest after the next boot, and no clock, boot or start time puts "
        "the core and these lines together",
        command="coredumpctl info PID > record.txt; dmesg > kernel.txt",
    )
