"""What the log and the probes say about sleep in this incarnation: the WHY question's first witness.

Log lines come BEFORE the act they name, none says that a wake has finished, and a crash can lose the
last ones (field experiments; docs/verdicts.md). So the log gives a phase, never a proof.
"""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.contracts.facts import LogFact
from analyzers.verdict.case import Case, Seen

WAKING_EVENTS = ("loading", "init")
REQUEST_EVENTS = ("task-launched", "request")
HTTP_ERROR = 400


@dataclass(frozen=True)
class SleepStory:
    """The sleep transitions of one incarnation as its log tells them."""

    phase: str
    transitions: tuple[Seen[LogFact], ...]
    last: Seen[LogFact] | None
    cancelled_asleep: tuple[Seen[LogFact], ...]
    stop: Seen[LogFact] | None
    started: bool
    failed_asleep: tuple[Seen[LogFact], ...] = ()  # error answers while asleep: their handlers began before

    @property
    def slept(self) -> bool:
        """True when the log holds a sleep line of this incarnation that no client could have written."""
        return any(not seen.forgeable for seen in self.transitions)

    @property
    def witnesses(self) -> tuple[str, ...]:
        """Ids of the transitions that matter: the last two."""
        return tuple(seen.id for seen in self.transitions[-2:])


def tell(case: Case) -> SleepStory:
    """Fold the log's events into the phase at its end."""
    phase, last, stop, started = "unknown", None, None, False
    transitions: list[Seen[LogFact]] = []
    cancelled: list[Seen[LogFact]] = []
    failed: list[Seen[LogFact]] = []
    for seen in case.log:
        if seen.forgeable and seen.fact.event in ("enter-sleep", "exit-sleep"):
            continue
        event = seen.fact.event
        if event in ("enter-sleep", "exit-sleep"):
            last = seen
            transitions.append(seen)
        elif event in ("stopping", "cleaning-up"):
            stop = seen
        elif event == "task-cancelled" and phase == "asleep":
            cancelled.append(seen)
        elif event == "request" and phase == "asleep" and (seen.fact.status or 0) >= HTTP_ERROR:
            failed.append(seen)
        started = started or event in ("listening", "loaded") or bool(transitions)
        phase = _next(phase, event)
    return SleepStory(phase, tuple(transitions), last, tuple(cancelled), stop, started, tuple(failed))


_PHASE_AFTER = {
    "init": "loading",
    "enter-sleep": "asleep",
    "exit-sleep": "waking",
    "listening": "awake",
    "stopping": "stopping",
    "cleaning-up": "stopping",
}
_AFTER_WAKE = {"task-launched": "first-request-after-wake", "task-done": "awake", "slots-idle": "awake"}


def _next(phase: str, event: str) -> str:
    if event == "loading":
        return phase if phase == "waking" else "loading"
    if event == "loaded":
        return phase if phase == "waking" else "awake"
    if phase == "waking" and event in _AFTER_WAKE:
        return _AFTER_WAKE[event]
    if phase == "first-request-after-wake" and event in ("task-done", "slots-idle"):
        return "awake"
    return _PHASE_AFTER.get(event, phase)
