"""D1: a token count to a sleeping server reads the model captured before the wake (b11063)."""

from __future__ import annotations

from collector.lab.faults.prompts import count_tokens
from collector.lab.faults.provoked import ANSWERED, CRASH, DEATH_DEADLINE, Expected, Provoked, Stage, closed
from collector.lab.reference.conditions import asleep, exited

EXPECTED = Expected(
    "SEGV-UAF-SLEEP", ("wake",), ("first-request-after-wake",), "D1", ("handle_count_tokens",)
)
TWIN = Expected("NO-FAULT", ("unknown",), ("awake", "stopping"))
IDLE_SECONDS = 1
SLEEP_DEADLINE = 10.0


def provoke(stage: Stage, *, poisoned: bool = True) -> Provoked:
    """One token count to a server that sleeps. Unpoisoned it may be answered, rightly or wrongly."""
    server = stage.start(idle_seconds=IDLE_SECONDS, poisoned=poisoned)
    slept = server.wait_until(asleep, SLEEP_DEADLINE)
    stage.say("the server sleeps; sending one token count")
    answer = server.send(count_tokens())
    if answer.status is None:
        server.wait_until(exited, DEATH_DEADLINE)
    crashed = server.ending is not None
    notes = () if slept else ("the server did not go to sleep in time",)
    return closed(
        "D1",
        EXPECTED,
        server,
        CRASH if crashed else ANSWERED,
        happened=crashed,
        answers=(answer,),
        notes=notes,
    )


def provoke_twin(stage: Stage) -> Provoked:
    """The same request to the same build while it is awake: answered."""
    server = stage.start(idle_seconds=IDLE_SECONDS, poisoned=True)
    answer = server.send(count_tokens())
    server.terminate()
    return closed("D1-twin-awake", TWIN, server, ANSWERED, happened=answer.status == 200, answers=(answer,))
