"""SIGBUS: the model file is cut short while an awake server has it mapped."""

from __future__ import annotations

from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import ANSWERED, CRASH, DEATH_DEADLINE, Expected, Provoked, Stage, closed
from collector.lab.faults.wake_reload import cut, private_model
from collector.lab.reference.conditions import exited

EXPECTED = Expected("BUS", ("model-file",), ("awake",))


def provoke(stage: Stage) -> Provoked:
    """Cut a private copy of the model under the mapping, then ask for one token."""
    model = private_model(stage, "mapped")
    server = stage.start(model=model)
    cut(model)
    stage.say("the mapped model is cut; asking for one token")
    answer = server.send(touch())
    if answer.status is None:
        server.wait_until(exited, DEATH_DEADLINE)
    crashed = server.ending is not None
    outcome = CRASH if crashed else ANSWERED
    return closed(
        "bus-error", EXPECTED, server, outcome, happened=crashed, answers=(answer,), model_state="cut"
    )
