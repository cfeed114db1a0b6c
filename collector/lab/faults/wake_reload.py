"""D7: the model cannot be loaded again after sleeping, and the server aborts by design."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from collector.lab.faults.d1_stale_capture import SLEEP_DEADLINE
from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import ANSWERED, CRASH, DEATH_DEADLINE, Expected, Provoked, Stage, closed
from collector.lab.reference.conditions import asleep, exited

EXPECTED = Expected("ABRT-WAKE-RELOAD", ("model-file",), ("waking",), "D7")
IDLE_SECONDS = 1
# Long enough to keep the magic and the metadata's beginning, too short for the tensors.
CUT_BYTES = 4096


def delete(model: Path) -> None:
    """The file is gone: a clean-up job, an unmounted volume."""
    model.unlink()


def replace_by_text(model: Path) -> None:
    """Another file stands in its place: a failed download, an error page."""
    model.write_bytes(b"not a model\n" * 100)


def cut(model: Path) -> None:
    """The file ends early: a download under way, a full disk."""
    with model.open("r+b") as file:
        file.truncate(CUT_BYTES)


STATES: dict[Callable[[Path], None], str] = {delete: "missing", replace_by_text: "replaced", cut: "cut"}


def provoke(stage: Stage, damage: Callable[[Path], None] = delete) -> Provoked:
    """Damage a private copy of the model while the server sleeps, then wake it with one completion."""
    model = private_model(stage, damage.__name__)
    server = stage.start(model=model, idle_seconds=IDLE_SECONDS)
    slept = server.wait_until(asleep, SLEEP_DEADLINE)
    damage(model)
    stage.say(f"the server sleeps; {damage.__name__} its model and wake it")
    answer = server.send(touch())
    if answer.status is None:
        server.wait_until(exited, DEATH_DEADLINE)
    crashed = server.ending is not None
    return closed(
        f"D7-{damage.__name__}",
        EXPECTED,
        server,
        CRASH if crashed else ANSWERED,
        happened=crashed and slept,
        answers=(answer,),
        model_state=STATES[damage],
    )


def private_model(stage: Stage, name: str) -> Path:
    """A copy of the stage's model that may be damaged: the cached one is shared."""
    stage.lab.folder.mkdir(parents=True, exist_ok=True)
    copy = stage.lab.folder / f"{name}.gguf"
    shutil.copyfile(stage.base.model, copy)
    return copy
