"""D1 needs no pin: one token count to a server that sleeps already, its freed memory poisoned."""

from __future__ import annotations

import time

from analyzers.contracts.trials import BAD, CRASHED, Trial
from analyzers.errors import UserError
from collector.lab.faults.pinning import entered_since
from collector.lab.faults.provoked import DEATH_DEADLINE
from collector.lab.reference.client import Answer
from collector.lab.reference.conditions import asleep, exited
from collector.lab.reference.server import RunningServer
from collector.lab.verify.answers import repeatable
from collector.lab.verify.pinned import verdicts
from collector.lab.verify.pinned.seen import Reading, Seen, read
from collector.lab.verify.pinned.trial import Plan, describe, inconclusive
from collector.lab.verify.pinned.warm import Warm
from collector.lab.verify.pinned.windows import Window
from collector.lab.verify.pinned.witness import LAST_PATIENCE, Held, dying
from collector.lab.verify.subject import explained

SLEEP_DEADLINE = 10.0
# The whole request is the window: it is sent to a server that sleeps.
WHOLE = Window(0.0, 0.0, float("inf"))


def asleep_trial(warm: Warm, plan: Plan) -> Trial:
    """Send the shape's request to a sleeping server; it never came to sleep: inconclusive.

    Each on a fresh server: where a reload happened to get the freed model's own address, it gets it at every
    later sleep as well, and the stale pointer is then right (4 trials in a row on one native b11138).
    """
    try:
        server = warm.take(poisoned=plan.shape.poisoned)
    except UserError as error:
        return inconclusive(plan, f"the server did not start: {explained(error, warm.base.model)}")
    if not server.wait_until(asleep, SLEEP_DEADLINE):
        warm.drop()
        return inconclusive(plan, f"the server did not fall asleep within {SLEEP_DEADLINE:.0f} s")
    seen = _send(server, plan)
    reading = read(seen, WHOLE, plan.awake.answer, plan.awake.again)
    trial = _judged(warm, server, plan, seen, reading)
    return trial.model_copy(update={"trial_seconds": round(time.monotonic() - plan.began, 3)})


def _send(server: RunningServer, plan: Plan) -> Seen:
    """The sleep came before: for the reading, the moment of sending is the moment of sleep."""
    server.note_threads()
    answer = server.send(repeatable(plan.shape.request))
    if answer.status is None:
        server.wait_until(exited, DEATH_DEADLINE if dying(server) else LAST_PATIENCE)
    slept = answer.sent if entered_since(server, server.started_mono) else None
    return Seen(
        sent=answer.sent,
        wanted=answer.sent,
        handled=slept,
        arrival=None,
        answer=answer,
        ending=server.ending,
        proven=slept is not None,
        slept_before=slept is not None,
    )


def _judged(warm: Warm, server: RunningServer, plan: Plan, seen: Seen, reading: Reading) -> Trial:
    folder = server.folder / f"trial-{plan.number:03d}"
    trial = describe(plan, seen, reading, Held())
    if reading.outcome == CRASHED:
        trial = verdicts.crashed(trial, server, plan.shape, seen.answer, folder)
    elif reading.outcome in BAD and reading.reached:
        answers: list[Answer] = [plan.awake.answer, *([seen.answered] if seen.answered else [])]
        judgement, signature = verdicts.of_life(server, plan.shape, reading.outcome, answers, (), folder)
        trial = trial.model_copy(update={"judgement": judgement, "signature": signature})
    warm.drop()
    return trial
