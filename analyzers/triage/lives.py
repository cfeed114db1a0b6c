"""Which life of the server a log tells of.

A log that outlived its server holds several lives, one after each restart. Mixing them would lend one life's
sleep to another one's crash, so a verdict reads exactly one, and says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import AbortFact, CoreFact, ExitFact, KernelFact, LogFact, fact_of
from analyzers.contracts.report import Gap

STOPS = ("stopping", "cleaning-up")
CLOCKS = ("mono", "wall")


@dataclass(frozen=True)
class Life:
    """The log evidence of one process, in order."""

    items: tuple[Evidence, ...]

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(item.id for item in self.items)

    @property
    def pid(self) -> int | None:
        return next((item.incarnation.pid for item in self.items if item.incarnation.pid is not None), None)

    @property
    def aborted(self) -> bool:
        return any(item.kind == AbortFact.KIND for item in self.items)

    @property
    def stopped(self) -> bool:
        facts = (fact_of(item, LogFact) for item in self.items)
        return any(fact is not None and fact.event in STOPS for fact in facts)

    def began(self, clock: str) -> float | None:
        stamps = [getattr(item, clock) for item in self.items]
        return next((stamp for stamp in stamps if stamp is not None), None)


def one_life(evidence: Sequence[Evidence], lives: Sequence[Life]) -> tuple[list[Evidence], list[Gap]]:
    """The evidence without the other lives' log lines, and a gap that says which life was read."""
    items = list(evidence)
    if len(lives) < 2:
        return items, []
    index, why = _dying(lives, items)
    dropped = frozenset().union(*(life.ids for life in lives)) - lives[index].ids
    kept = [item for item in items if item.id not in dropped]
    gap = Gap(
        what=f"{len(lives) - 1} other lives of the server in this log",
        why=f"a verdict reads one life; this one reads number {index + 1} of {len(lives)}: {why}",
        command="cut the log to the life in question, or give journal entries (they name their process)",
    )
    return kept, [gap]


def _dying(lives: Sequence[Life], items: Sequence[Evidence]) -> tuple[int, str]:
    dead = set(_dead(_deaths(items)))
    named = [i for i, life in enumerate(lives) if life.pid in dead]
    if named:
        return named[-1], f"the one of PID {lives[named[-1]].pid}"
    for clock in CLOCKS:
        died = _death_time(items, clock)
        began = [life.began(clock) for life in lives]
        if died is not None and all(start is not None for start in began):
            before = [i for i, start in enumerate(began) if start is not None and start <= died]
            if before:
                return before[-1], "the one that was running when the process died"
    aborted = [i for i, life in enumerate(lives) if life.aborted]
    if aborted:
        return aborted[-1], "the last one that ended with an abort"
    silent = [i for i, life in enumerate(lives[:-1]) if not life.stopped]
    if silent and _deaths(items):
        return silent[-1], "the last one that was followed by a restart without a stop"
    return len(lives) - 1, "the last one"


def _dead(deaths: Sequence[Evidence]) -> Iterator[int]:
    """PIDs of the dead. The kernel names a thread, and a process's first thread has its PID."""
    for item in deaths:
        kernel = fact_of(item, KernelFact)
        for number in (item.incarnation.pid, kernel.tid if kernel is not None else None):
            if number is not None:
                yield number


def _deaths(items: Sequence[Evidence]) -> list[Evidence]:
    found = []
    for item in items:
        ended = fact_of(item, ExitFact)
        if item.kind in (CoreFact.KIND, KernelFact.KIND) or (ended is not None and not ended.requested):
            found.append(item)
    return found


def _death_time(items: Sequence[Evidence], clock: str) -> float | None:
    stamps = [getattr(item, clock) for item in _deaths(items)]
    return next((stamp for stamp in stamps if stamp is not None), None)
