"""All pinned trials of a run, defect by defect, one finished trial at a time."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from analyzers.contracts.trials import ANSWERED, Trial
from analyzers.errors import UserError
from collector.lab.verify.findings import shows
from collector.lab.verify.judge import oom_kills
from collector.lab.verify.pinned.calibration import Awake, calibrate
from collector.lab.verify.pinned.conclude import summary
from collector.lab.verify.pinned.pins import CANNOT, Pin, choose_pin
from collector.lab.verify.pinned.shapes import Shape, shapes_for
from collector.lab.verify.pinned.trial import Plan, inconclusive, pinned_trial
from collector.lab.verify.pinned.unpinned import asleep_trial
from collector.lab.verify.pinned.warm import Warm
from collector.lab.verify.session import Bench

# A server that did not start so many times in a row will not: the machine's state is said, not waited for.
FAILED_STARTS = 3
SLEEP_OPTIONS = ("--sleep-idle-seconds", "sleep_idle_seconds")


@dataclass(frozen=True)
class Choice:
    """What the command line asked for. ``until_shown`` ends a defect's trials at the first that shows it."""

    defects: tuple[str, ...]
    trials: int
    unpoisoned: bool = False
    until_shown: bool = False


@dataclass
class Pinning:
    """A run under way. The pin is found once: it depends on the build, not on the request."""

    bench: Bench
    choice: Choice
    warm: Warm
    pin: Pin | None = None
    sought: bool = False
    number: int = 0
    failed_starts: int = 0
    awake: dict[str, Awake] = field(default_factory=dict)

    def defect(self, defect: str) -> Iterator[Trial]:
        """Every trial of one defect; its time starts here, calibration included."""
        shapes = shapes_for(defect, unpoisoned=self.choice.unpoisoned)
        if self.pin is not None:
            self.pin.correction.forget()
        made: list[Trial] = []
        for index in range(self.choice.trials):
            plan = self._planned(shapes[index % len(shapes)])
            made.append(self._made(plan))
            yield made[-1]
            if plan.awake.problem is not None:  # what cannot be tried once cannot be tried twenty times
                shapes = tuple(shape for shape in shapes if shape != plan.shape)
            if made[-1].outcome == ANSWERED and not made[-1].reached:
                self.awake.pop(plan.shape.key, None)  # load came or went: measured again before its next turn
            if not shapes or self._enough(plan.shape, made[-1]):
                break
        self.bench.say(f"{defect}: {summary(defect, made)}")

    def _planned(self, shape: Shape) -> Plan:
        began = time.monotonic()
        awake = self._calibrated(shape)
        self._find_pin(shape, awake)
        self.number += 1
        return Plan(self.number, shape, awake, began)

    def _calibrated(self, shape: Shape) -> Awake:
        """Measured before a shape's first trial: the very first trial need not wait for the others."""
        if shape.key not in self.awake:
            self.bench.say(f"measuring the awake answers to {shape.name}")
            self.awake[shape.key] = calibrate(self.bench.lab, self.bench.spec, shape)
            self.bench.say(f"{shape.name}: {_told(self.awake[shape.key])}")
        return self.awake[shape.key]

    def _find_pin(self, shape: Shape, awake: Awake) -> None:
        """Once, on the server of the first pinned trial."""
        if self.sought or awake.window is None:
            return
        self.sought = True
        server = self.warm.take(poisoned=shape.poisoned)
        self.pin = choose_pin(server, self.bench.chosen.subject.build, self.bench.say)
        self.warm.proven = self.pin is not None

    def _made(self, plan: Plan) -> Trial:
        before = oom_kills()
        return explained(self._tried(plan), before, oom_kills())

    def _tried(self, plan: Plan) -> Trial:
        if plan.awake.problem is not None:
            return inconclusive(plan, plan.awake.problem)
        if plan.shape.asleep:
            return asleep_trial(self.warm, plan)
        if self.pin is None:
            return inconclusive(plan, CANNOT)
        return pinned_trial(self.warm, self.pin, plan)

    def _enough(self, shape: Shape, trial: Trial) -> bool:
        """Shown, where that was asked for; or nothing further can come of it."""
        started = self.warm.server is not None or trial.judgement is not None or trial.seconds is not None
        self.failed_starts = 0 if started else self.failed_starts + 1
        if self.failed_starts >= FAILED_STARTS:
            self.bench.say(f"given up after {FAILED_STARTS} trials in a row without a server to try")
            return True
        if self.sought and self.pin is None and not shape.asleep:
            return True
        shown = trial.defect is not None and trial.reached and shows(trial.defect, trial)
        return shown and self.choice.until_shown


def carry_out(bench: Bench, choice: Choice) -> Iterator[Trial]:
    """The trials of every chosen defect. Raises UserError when no server can be started at all."""
    run = Pinning(bench, choice, Warm(bench.lab, bench.spec))
    for defect in choice.defects:
        try:
            yield from run.defect(defect)
        except UserError as error:
            raise _no_sleep_mode(error) or error from None


def explained(trial: Trial, before: int | None, after: int | None) -> Trial:
    """A kill from outside, with its likely hand when the kernel's count of out-of-memory kills has grown."""
    if trial.signal != signal.SIGKILL or None in (before, after) or before == after:
        return trial
    return trial.model_copy(update={"notes": [*trial.notes, "the kernel ran out of memory meanwhile"]})


def _told(awake: Awake) -> str:
    window = awake.window
    took = f"awake {awake.seconds * 1000:.0f} ms"
    if awake.problem is not None or window is None:
        return awake.problem or took
    begin, aim, end = (moment * 1000 for moment in (window.begin, window.aim, window.end))
    return f"{took}, window {begin:.0f} to {end:.0f} ms after sending, aimed at {aim:.0f} ms"


def _no_sleep_mode(error: UserError) -> UserError | None:
    if not any(option in error.what for option in SLEEP_OPTIONS):
        return None
    return UserError(
        "this server has no sleep mode (it refuses --sleep-idle-seconds)",
        where=error.where,
        remedy="test a build that has one, of December 2025 or later",
    )
