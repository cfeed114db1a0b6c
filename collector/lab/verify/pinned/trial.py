"""One pinned trial: place the sleep, watch, judge, and leave the server ready for the next one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from analyzers.contracts.trials import ANSWERED, BAD, CRASHED, INCONCLUSIVE, STRANDED, Trial
from analyzers.errors import UserError
from collector.lab.faults.pinning import Pinned, entered_since
from collector.lab.reference.client import Answer
from collector.lab.reference.server import RunningServer
from collector.lab.verify.answers import outcome_of, repeatable
from collector.lab.verify.pinned import verdicts
from collector.lab.verify.pinned.calibration import Awake, taken_up_since
from collector.lab.verify.pinned.clock import written
from collector.lab.verify.pinned.pins import Pin
from collector.lab.verify.pinned.seen import Reading, Seen, read
from collector.lab.verify.pinned.shapes import Shape
from collector.lab.verify.pinned.warm import Warm
from collector.lab.verify.pinned.windows import Window
from collector.lab.verify.pinned.witness import Held, look, patience_for, release, watch
from collector.lab.verify.subject import explained

# The sleep line may still be on its way when the answer is there; so may a poke's own answer.
LATE_LINE = 0.05


@dataclass(frozen=True)
class Plan:
    """One trial to be made. ``began`` is when its time starts to count (CLOCK_MONOTONIC)."""

    number: int
    shape: Shape
    awake: Awake
    began: float

    @property
    def window(self) -> Window:
        assert self.awake.window is not None  # noqa: S101 - a shape without one is not planned
        return self.awake.window


def pinned_trial(warm: Warm, pin: Pin, plan: Plan) -> Trial:
    """Outcome and verdict of one send. A server that does not start makes it inconclusive."""
    try:
        server = warm.take(poisoned=plan.shape.poisoned)
    except UserError as error:
        return inconclusive(plan, f"the server did not start: {explained(error, warm.base.model)}")
    pinned = pin.place(server, repeatable(plan.shape.request), plan.window.aim)
    answer = watch(server, pinned, patience_for(plan.awake.seconds))
    held = look(server) if answer is None and server.ending is None else Held()
    seen = observe(server, pin, pinned, held)
    seen = prove(warm, pin, seen)
    reading = read(seen, plan.window, plan.awake.answer, plan.awake.again)
    if seen.in_flight is not None:
        pin.learn(pinned, seen.in_flight)
    trial = _judged(warm, plan, pinned, seen, reading, held)
    return trial.model_copy(update={"trial_seconds": round(time.monotonic() - plan.began, 3)})


def observe(server: RunningServer, pin: Pin, pinned: Pinned, held: Held) -> Seen:
    """Everything that was seen of the send, once it has ended or been given up."""
    if server.ending is None:
        server.wait_until(lambda each: entered_since(each, pinned.sent) is not None, LATE_LINE)
    line = entered_since(server, pinned.sent)
    return Seen(
        sent=pinned.sent,
        wanted=pinned.wanted,
        early=pinned.early,
        arrival=written(line, server.output.lines()) if line else None,
        handled=pin.handled(pinned),
        posted=taken_up_since(server, pinned.sent),
        answer=pinned.pending.answer,
        ending=server.ending,
        asleep=held.asleep,
        found=held.found is not None,
    )


def prove(warm: Warm, pin: Pin, seen: Seen) -> Seen:
    """A server that did not sleep into a request it answered must be seen to sleep without one, once."""
    if seen.in_flight is not None and seen.answered is not None:
        warm.proven = True
    elif seen.answered is not None and warm.server is not None and not warm.proven and not seen.early:
        warm.proven = pin.obeys(warm.server)
    return replace(seen, proven=warm.proven)


def _judged(warm: Warm, plan: Plan, pinned: Pinned, seen: Seen, reading: Reading, held: Held) -> Trial:
    server = warm.server
    assert server is not None  # noqa: S101 - the trial was made on it
    folder = server.folder / f"trial-{plan.number:03d}"
    trial = describe(plan, seen, reading, held)
    if reading.outcome == CRASHED:
        return verdicts.crashed(trial, server, plan.shape, seen.answer, folder)
    if reading.outcome in BAD and reading.reached:
        answers = [each for each in (plan.awake.answer, seen.answered) if each is not None]
        judgement, signature = verdicts.of_life(
            server, plan.shape, reading.outcome, answers, held.evidence, folder
        )
        trial = trial.model_copy(update={"judgement": judgement, "signature": signature})
    if reading.outcome == STRANDED:
        return _released(warm, server, plan, pinned, trial)
    if seen.answered is None:
        warm.drop()
    return trial


def _released(warm: Warm, server: RunningServer, plan: Plan, pinned: Pinned, trial: Trial) -> Trial:
    """One waking call must let the client go: a hang that it does not end is no stranded request."""
    answer = release(server, pinned)
    if answer is None or answer.status is None:
        warm.drop()
        note = "a waking call did not release the client: a hang of another kind"
        return trial.model_copy(update={"outcome": INCONCLUSIVE, "reached": False, "notes": [note]})
    note = f"released by one waking call, answered {_like_awake(plan.awake, answer)}"
    return trial.model_copy(update={"status": answer.status, "notes": [note, *trial.notes]})


def _like_awake(awake: Awake, answer: Answer) -> str:
    outcome = outcome_of(answer, awake.answer, awake.again)
    if outcome == INCONCLUSIVE:
        return "like neither of two awake answers, which differ already"
    return "as when awake" if outcome == ANSWERED else "NOT as when awake"


def describe(plan: Plan, seen: Seen, reading: Reading, held: Held) -> Trial:
    """The trial's record, without a verdict."""
    answer = seen.answer
    error = seen.placement_error
    shape = plan.shape
    about = f"{shape.name}{', freed memory poisoned' if shape.poisoned else ''}"
    return Trial(
        number=plan.number,
        defect=shape.defect,
        route=shape.route,
        outcome=reading.outcome,
        reached=reading.reached,
        status=answer.status if answer else None,
        seconds=round(answer.seconds, 6) if answer else None,
        offset=round(plan.window.aim, 6) if plan.awake.window else None,
        placement_error=None if error is None else round(error, 6),
        signal=seen.ending.signal if seen.ending else None,
        notes=[*reading.notes, *([held.note] if held.note else []), about],
    )


def inconclusive(plan: Plan, why: str) -> Trial:
    """A trial that could not be made."""
    return Trial(
        number=plan.number,
        defect=plan.shape.defect,
        route=plan.shape.route,
        outcome=INCONCLUSIVE,
        reached=False,
        trial_seconds=round(time.monotonic() - plan.began, 3),
        notes=[why],
    )
