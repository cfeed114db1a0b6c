"""What was seen of one pinned request, and what may be concluded from it."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from analyzers.contracts.trials import BAD, CRASHED, INCONCLUSIVE, STRANDED
from collector.lab.faults.provoked import CORE_SIGNALS
from collector.lab.reference.client import Answer
from collector.lab.reference.processes import Ending
from collector.lab.verify.answers import NOT_COMPARABLE, differ, outcome_of
from collector.lab.verify.pinned.windows import Window

# A loop that finds its limit passed prints the sleep line at once; a loaded machine delays it by tens of
# milliseconds, and its next look by itself comes half a second later.
AT_ONCE_SECONDS = 0.1
# POSIX: what a shell's exit status is above when the program it waited for died of a signal.
SHELL_BASE = 128


@dataclass(frozen=True)
class Seen:
    """Observations of one send. Moments are seconds of CLOCK_MONOTONIC.

    ``early``: the server slept before the request was sent. ``arrival`` of the sleep line; ``handled``, when
    the loop looked at its idle limit, whether it slept or not; ``posted``, when it took up the request's
    first task, from which on it is not idle. ``asleep``: /props said so while the client waited; ``found``:
    the collector's own search saw a stranded request. ``proven``: this server sleeps when told to and nothing
    is in flight. ``slept_before``: the request was meant for a server that sleeps.
    """

    sent: float
    wanted: float
    early: bool = False
    arrival: float | None = None
    handled: float | None = None
    posted: float | None = None
    answer: Answer | None = None
    ending: Ending | None = None
    asleep: bool = False
    found: bool = False
    proven: bool = False
    slept_before: bool = False

    @property
    def answered(self) -> Answer | None:
        return self.answer if self.answer is not None and self.answer.status is not None else None

    @property
    def in_flight(self) -> float | None:
        """The sleep line's arrival, when the request was under way."""
        if self.arrival is None or self.early or self.arrival <= self.sent:
            return None
        return None if self.answered and self.arrival > self.answered.ended else self.arrival

    @property
    def declined(self) -> bool:
        """The loop looked at its idle limit and went on; a sleep that came long after was another look's."""
        return self.handled is not None and (
            self.in_flight is None or self.in_flight - self.handled > AT_ONCE_SECONDS
        )

    @property
    def placement_error(self) -> float | None:
        """How much later than wanted the sleep came; None when none came, or its line was lost."""
        return None if self.in_flight is None or self.declined else self.in_flight - self.wanted


@dataclass(frozen=True)
class Reading:
    """Outcome, whether the trial says anything of its window, and why."""

    outcome: str
    reached: bool
    notes: tuple[str, ...] = ()


def read(seen: Seen, window: Window, awake: Answer | None, again: Answer | None = None) -> Reading:
    """The outcome of a pinned trial; see ``analyzers.contracts.trials.OUTCOMES``. ``again``: an awake answer
    that differs from ``awake``."""
    if seen.ending is not None:
        return _ended(seen.ending)
    if seen.early:
        return Reading(INCONCLUSIVE, False, ("the server slept before the request was sent",))
    if seen.answered is None:
        return _unanswered(seen)
    outcome = outcome_of(seen.answered, awake, again)
    if outcome == INCONCLUSIVE and differ(awake, again):
        return Reading(outcome, False, (NOT_COMPARABLE,))
    if outcome == INCONCLUSIVE:
        return Reading(outcome, False, ("there is no awake answer to compare with",))
    if outcome in BAD:
        met = seen.slept_before or seen.in_flight is not None
        why = () if met else ("the answer differs, but no sleep came into the request",)
        return Reading(outcome, met, why)
    missed = _missed(seen, window)
    return Reading(outcome, missed is None, (missed,) if missed else ())


def _ended(ending: Ending) -> Reading:
    if ending.signal is None:
        why = f"the server ended by itself with status {ending.code}{_behind(ending.code)}, not counted"
        return Reading(INCONCLUSIVE, False, (why,))
    if ending.signal in CORE_SIGNALS:
        return Reading(CRASHED, True)
    return Reading(INCONCLUSIVE, False, (f"killed by {_name(ending.signal)} from outside, not counted",))


def _behind(code: int | None) -> str:
    """A shell that waits for a program ends with 128 and the signal's number: a death seen second-hand."""
    number = (code or 0) - SHELL_BASE
    if number not in set(signal.Signals):
        return ""
    return f" (a shell's word for {_name(number)}: name the binary, or let the wrapper exec it)"


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _unanswered(seen: Seen) -> Reading:
    if seen.answer is not None:
        return Reading(
            INCONCLUSIVE, False, (f"the connection broke ({seen.answer.error}), the server lives",)
        )
    if not seen.asleep:
        return Reading(INCONCLUSIVE, False, ("no answer in time, and the server is not asleep",))
    if not seen.found:
        return Reading(
            INCONCLUSIVE, False, ("the client waits, but no stranded request is seen from outside",)
        )
    return Reading(STRANDED, True)


def _missed(seen: Seen, window: Window) -> str | None:
    """Why a rightly answered request says nothing; None when the sleep, or the chance of it, was in place."""
    if seen.in_flight is not None and not seen.declined:
        return _outside(seen.in_flight - seen.sent, window, "the sleep came")
    over = min(filter(None, (seen.posted, seen.answered.ended if seen.answered else None)), default=None)
    if seen.handled is None or (over is not None and seen.handled >= over):
        return "the loop did not look at its idle limit before the request was queued or answered"
    if not seen.proven:
        return "this server did not sleep when told to, with nothing in flight"
    return _outside(seen.handled - seen.sent, window, "the loop looked at its idle limit")


def _outside(offset: float, window: Window, what: str) -> str | None:
    if window.holds(offset):
        return None
    ends = f"{window.begin * 1000:.0f} to {window.end * 1000:.0f} ms"
    return f"{what} {offset * 1000:.1f} ms after sending, outside its window of {ends}"
