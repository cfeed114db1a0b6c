"""From everything told to one state and its reason: the end first, then the model's phase, then its work."""

from __future__ import annotations

from dataclasses import dataclass, field

from collector.agent.states.model import SETTLED_SECONDS, Crowd, Knobs, Now
from collector.agent.states.phase import ASLEEP, AWAKE, LOADING, Phase
from collector.agent.states.progress import Progress

MAX_NOTES = 8
# Reading the request itself burns CPU time after its last byte: 0.4 s for 780 KB with the tiny model.
TOKENISING_SECONDS = 3.0


@dataclass(frozen=True)
class Ending:
    """How the process ended. ``fault`` None: not known."""

    fault: bool | None
    text: str
    evidence: tuple[str, ...] = ()


@dataclass
class Told:
    """All that one server's state is decided from. ``asked``: evidence id, CLOCK_MONOTONIC, and whether a
    supervisor said it; ``tasks`` launched and not done by the log; ``gauges`` processing and deferred."""

    phase: Phase
    progress: Progress
    knobs: Knobs
    crowd: Crowd = field(default_factory=lambda: Crowd(0.0))
    asked: tuple[str, float, bool] | None = None
    dumping: bool = False
    dump_evidence: tuple[str, ...] = ()
    zombie: bool = False
    ending: Ending | None = None
    tasks: int = 0
    gauges: int = 0
    health: tuple[str | None, str] | None = None
    refused: bool = False
    said: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """A note that stays."""
        if text not in self.said:
            self.said = [*self.said, text][-MAX_NOTES:]


@dataclass(frozen=True)
class Decision:
    """A state, why, and since when (CLOCK_MONOTONIC)."""

    state: str
    reason: str
    since: float
    evidence: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def decide(told: Told, now: Now) -> Decision:
    """The best-founded state. What is not known stands in the notes, never in the state."""
    ended = _ended(told, now)
    if ended is not None:
        return ended
    if told.asked is not None:
        by = "its supervisor" if told.asked[2] else "a line of its log"
        return Decision("stopping", f"{by} tells of a stop", told.asked[1], (told.asked[0],), _notes(told))
    if told.phase.now == ASLEEP:
        return _asleep(told, now)
    if told.phase.now in (AWAKE, None):
        return _awake(told, now)
    return _between(told, now)


def _ended(told: Told, now: Now) -> Decision | None:
    end = told.ending
    if end is not None:
        planned = told.asked is not None and told.asked[2]
        crashed = (end.fault or told.dumping) if end.fault is not None or told.dumping else False
        state = "crashed" if crashed and not (planned and not told.dumping) else "down"
        return Decision(state, end.text, now.mono, end.evidence)
    if told.dumping:
        return Decision("dumping", "the kernel is writing its core", now.mono, told.dump_evidence)
    if told.zombie:
        return Decision("down", "the process has ended and nobody has waited for it", now.mono)
    return None


def _asleep(told: Told, now: Now) -> Decision:
    stuck = told.crowd.stuck if _sleeps_surely(told, now) else ()
    if not stuck:
        return Decision(ASLEEP, told.phase.reason, told.phase.since, told.phase.evidence, _notes(told))
    longest = max(one.quiet for one in stuck)
    count = f"{len(stuck)} request{'s' if len(stuck) > 1 else ''}"
    reason = f"{count} unanswered for {longest:.1f} s, and it sleeps: {told.phase.reason}"
    evidence = (*(one.evidence for one in stuck), *told.phase.evidence)
    return Decision("stranded", reason, now.mono, evidence, _notes(told))


def _sleeps_surely(told: Told, now: Now) -> bool:
    """Asleep by a word of after the request, or by an older one with no CPU time burnt since the request.

    A lost line on a wake would leave the log saying that it sleeps while it works.
    """
    stuck = told.crowd.stuck
    if not stuck:
        return False
    asked = now.mono - min(one.quiet for one in stuck)
    fresh = told.phase.hard and told.phase.said >= asked + SETTLED_SECONDS
    waited = now.mono - asked
    return fresh or told.progress.calm(now.mono) >= waited - TOKENISING_SECONDS


def _awake(told: Told, now: Now) -> Decision:
    phase, notes = told.phase, _notes(told)
    if phase.now is None or phase.doubted:
        notes = (*notes, _unknown(told))
    work = _work(told)
    if work is None:
        since = phase.since if phase.now is not None else now.mono
        reason = phase.reason or "it runs, and nothing says otherwise"
        return Decision(AWAKE, reason, since, phase.evidence, notes)
    still = now.mono - told.progress.last
    if still >= told.knobs.hung and _held(told):
        return _hung(told, now, work, still, notes)
    return Decision("busy", work, now.mono, _working_evidence(told), notes)


def _between(told: Told, now: Now) -> Decision:
    phase = told.phase
    still = now.mono - max(told.progress.last, phase.since)
    watched = told.progress.calm_since is not None
    if still >= told.knobs.hung and watched and phase.now is not None:
        return _hung(told, now, f"it is {phase.now}", still, _notes(told))
    return Decision(phase.now or LOADING, phase.reason, phase.since, phase.evidence, _notes(told))


def _hung(told: Told, now: Now, work: str, still: float, notes: tuple[str, ...]) -> Decision:
    reason = f"{work}, and nothing has moved for {still:.0f} s (last: {told.progress.what})"
    told_by = (*_working_evidence(told), *told.phase.evidence)
    return Decision("hung", reason, now.mono, told_by, notes)


def _held(told: Told) -> bool:
    """The work is the server's turn: a request that its threads have read, or one that it counts itself.

    A client that takes its stream slowly, or never, has bytes waiting for it: that is its own turn.
    """
    return bool(told.crowd.stuck) or told.gauges > 0 or (told.tasks > 0 and told.crowd.clients == 0)


def _work(told: Told) -> str | None:
    parts = []
    if told.tasks:
        parts.append(f"{told.tasks} tasks under way by its log")
    if told.gauges:
        parts.append(f"{told.gauges} requests by its own count")
    if told.crowd.stuck or (told.crowd.waiting and told.progress.calm_since is None):
        parts.append(f"{len(told.crowd.waiting)} clients wait for an answer")
    return ", ".join(parts) or None


def _working_evidence(told: Told) -> tuple[str, ...]:
    return tuple(one.evidence for one in (told.crowd.stuck or told.crowd.waiting)[:MAX_NOTES])


def _unknown(told: Told) -> str:
    why = "/props wants a key that was not given" if told.refused else "no word on its model was seen"
    return f"state unknown because {why}"


def _notes(told: Told) -> tuple[str, ...]:
    notes = list(told.said)
    if told.progress.note is not None:
        notes.append(told.progress.note)
    if told.crowd.unsure is not None:
        notes.append(told.crowd.unsure)
    if told.health is not None and told.health[0] not in (None, "answered"):
        notes.append(f"/health: {told.health[0]}")
    return tuple(notes)
