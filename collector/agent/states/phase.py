"""Where the model is: loading, awake, unloading, asleep or waking, by the hardest word that fits the order.

A line comes before the act it names, can be lost, and can be forged by a client. What /props and the
kernel say of a moment after the line outranks it; the contradiction is kept as a note.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import LogFact, ProbeFact
from collector.agent.states.model import SETTLED_SECONDS, Duration

LOADING, AWAKE, UNLOADING, ASLEEP, WAKING = "loading", "awake", "unloading", "asleep", "waking"
# A wake without /props, without a task and without CPU time for this long is over: a tiny model wakes in
# 15 ms, and any load burns CPU time or takes page faults.
CALM_SECONDS = 2.0
FORGOTTEN = 8  # conflicts kept
_WORKS = ("task-launched", "task-done", "request")


@dataclass
class Phase:
    """The phase of one incarnation, ``now`` None until anything was said. ``hard``: by /props or the kernel;
    ``said`` is when the deciding word was spoken (CLOCK_MONOTONIC)."""

    now: str | None = None
    since: float = 0.0
    said: float = 0.0
    hard: bool = False
    reason: str = ""
    evidence: tuple[str, ...] = ()
    sleeps: int = 0
    wakes: int = 0
    asleep_before: float = 0.0
    last_unload: Duration | None = None
    last_wake: Duration | None = None
    conflicts: list[str] = field(default_factory=list)
    doubted: bool = False
    _checked: float = 0.0
    _act: tuple[str, float] | None = None
    _asleep_from: float | None = None

    def log(self, fact: LogFact, evidence: Evidence, at: float) -> None:
        """A lifecycle line, spoken at ``at``. A line that a client can write counts for nothing here."""
        if evidence.trust is Trust.CLIENT or at < self.said:
            return
        step = _LINES.get(fact.event)
        if step is not None:
            step(self, evidence, at)
        elif fact.event in _WORKS and self.now in (None, LOADING, UNLOADING, ASLEEP, WAKING):
            self._work(evidence, at)

    def props(self, fact: ProbeFact, evidence: Evidence, at: float, healthy: bool) -> None:
        """An answer of /props, or its absence, to a question asked at ``at``."""
        if fact.is_sleeping is True:
            self._sleeps(evidence, at, "/props says that it sleeps")
        elif fact.is_sleeping is False:
            self._is_awake(evidence, at, "/props says that it is awake")
        elif fact.outcome == "timeout" and healthy:
            self._blocked(evidence, at)

    def kernel(self, asleep: bool, at: float) -> None:
        """How the main thread of a native server waits: for ever (asleep) or for a second (awake)."""
        word = "for ever: asleep" if asleep else "with a time-out: awake"
        if self.reason.startswith("a line") and asleep is not (self.now in (UNLOADING, ASLEEP)):
            self._conflict(f"{self.reason}, but its main thread waits {word}")
        if asleep and self.now in (None, AWAKE, UNLOADING, WAKING):
            self._put(ASLEEP, at, f"its main thread waits {word}", (), hard=True)
        elif not asleep and self.now in (None, ASLEEP, UNLOADING, WAKING):
            self._put(AWAKE, at, f"its main thread waits {word}", (), hard=True)

    def health(self, status: int | None, evidence: Evidence, at: float) -> None:
        """/health says 503 while the model is first loaded; a 200 says only that this is over."""
        if status == 503 and self.now in (None, LOADING):
            self._put(LOADING, at, "/health says 503", (evidence.id,), hard=True)
        elif status == 200 and self.now in (None, LOADING):
            self.doubted = self.now is None
            self._put(AWAKE, at, "/health answers: its first load is over", (evidence.id,), hard=False)

    def calm(self, seconds: float, at: float) -> None:
        """The process has burnt no CPU time for ``seconds``: what a line announced has been done."""
        if self.now == UNLOADING and seconds >= SETTLED_SECONDS:
            self._put(ASLEEP, at, "a line says that it sleeps, and it burns no CPU time", self.evidence)
        elif self.now == WAKING and seconds >= CALM_SECONDS:
            self._put(AWAKE, at, "a line says that it woke, and it burns no CPU time any more", self.evidence)

    def asleep_seconds(self, now: float) -> float:
        """Time asleep so far."""
        return self.asleep_before + (now - self._asleep_from if self._asleep_from is not None else 0.0)

    def _sleeps(self, evidence: Evidence, at: float, reason: str) -> None:
        if at < self.said or (self.now == WAKING and at < self.said + SETTLED_SECONDS):
            return  # the flag stays up while a model is loaded again
        if self.now in (AWAKE, WAKING) and not self.hard:
            self._conflict(f"{self.reason}, but {reason}")
        self._put(ASLEEP, at, reason, (evidence.id,), hard=True)

    def _is_awake(self, evidence: Evidence, at: float, reason: str) -> None:
        if at < self.said or (self.now == UNLOADING and at < self.said + SETTLED_SECONDS):
            return
        if self.now in (UNLOADING, ASLEEP) and not self.hard:
            self._conflict(f"{self.reason}, but {reason}")
        self._put(AWAKE, at, reason, (evidence.id,), hard=True)

    def _blocked(self, evidence: Evidence, at: float) -> None:
        if at < self.said:
            return
        why = "/health answers and /props does not: the model is being freed or loaded"
        turn = {ASLEEP: WAKING, AWAKE: UNLOADING}.get(self.now or "")
        if turn is not None:
            self._put(turn, at, why, (evidence.id,))

    def _work(self, evidence: Evidence, at: float) -> None:
        self._put(AWAKE, at, "a line tells of a task's work", (evidence.id,))

    def _put(
        self, phase: str, at: float, reason: str, evidence: tuple[str, ...], *, hard: bool = False
    ) -> None:
        if reason.startswith(("/props", "its main", "a line")):
            self.doubted = False
        if phase != self.now:
            self._count(phase, at)
            self.since = at
            self.now, self.reason, self.evidence = phase, reason, evidence
        elif hard and not self.hard:
            self.reason, self.evidence = reason, (*self.evidence, *evidence)[-4:]
        self.hard = hard
        self.said = self._checked = max(self.said, at)

    def _count(self, phase: str, at: float) -> None:
        old = self.now
        if phase in (UNLOADING, ASLEEP) and old not in (UNLOADING, ASLEEP):
            self.sleeps += old is not None
        if phase in (WAKING, AWAKE) and old in (UNLOADING, ASLEEP):
            self.wakes += 1
        if phase == ASLEEP:
            self._asleep_from = at
        elif self._asleep_from is not None:
            self.asleep_before += at - self._asleep_from
            self._asleep_from = None
        self._time(phase, at)

    def _time(self, phase: str, at: float) -> None:
        if phase in (UNLOADING, WAKING):
            self._act = (phase, at)
            return
        done = {ASLEEP: UNLOADING, AWAKE: WAKING}.get(phase)
        if self._act is not None and self._act[0] == done:
            took = Duration(round(at - self._act[1], 6), round(max(0.0, at - self._checked), 6))
            if done == UNLOADING:
                self.last_unload = took
            else:
                self.last_wake = took
        self._act = None

    def _conflict(self, text: str) -> None:
        if text not in self.conflicts:
            self.conflicts = [*self.conflicts, text][-FORGOTTEN:]


def _loading(phase: Phase, evidence: Evidence, at: float) -> None:
    if phase.now is None:  # a reload after a sleep prints the same lines
        phase._put(LOADING, at, "a line says that it loads", (evidence.id,))


def _listening(phase: Phase, evidence: Evidence, at: float) -> None:
    if phase.now in (None, LOADING):
        phase._put(AWAKE, at, "a line says that it is ready", (evidence.id,))


def _enter(phase: Phase, evidence: Evidence, at: float) -> None:
    if phase.now not in (UNLOADING, ASLEEP):
        phase._put(UNLOADING, at, "a line says that it goes to sleep", (evidence.id,))


def _leave(phase: Phase, evidence: Evidence, at: float) -> None:
    if phase.now not in (WAKING,):
        phase._put(WAKING, at, "a line says that it wakes", (evidence.id,))


def _again(phase: Phase, evidence: Evidence, at: float) -> None:
    phase._put(LOADING, at, "a line says that it starts anew in place", (evidence.id,))


_LINES: dict[str, Callable[[Phase, Evidence, float], None]] = {
    "init": _loading,
    "loading": _loading,
    "loaded": _listening,
    "listening": _listening,
    "enter-sleep": _enter,
    "exit-sleep": _leave,
    "restart-in-place": _again,
}
