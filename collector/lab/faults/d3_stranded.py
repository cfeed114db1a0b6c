"""D3: a request is queued while the server sleeps, and nothing wakes it (xllamacpp 2026.10.11549)."""

from __future__ import annotations

from collector.lab.faults.kernel import KernelLines
from collector.lab.faults.pinning import Pinned, pin
from collector.lab.faults.prompts import stranding
from collector.lab.faults.provoked import ANSWERED, CRASH, HANG, Expected, Provoked, Stage, closed
from collector.lab.reference.conditions import asleep_by_props
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.processes import Ending
from collector.lab.reference.server import RunningServer

EXPECTED = Expected("HANG-STRANDED", ("sleep",), ("asleep",), "D3")
# With a limit of 2 s nothing but the poke can end the idling within the request's tens of milliseconds.
IDLE_SECONDS = 2
# From sending to the poke: the conversion takes 20-40 ms, and sleep comes 1-3 ms after the poke.
OFFSET = 0.02
TRIES = 5
# An awake server answers the same request within a second; asleep and waiting after this is stranded.
SETTLE = 1.5
# How long the client waits before it gives up: room to find and release it. Seconds.
PATIENCE = 60.0


def provoke(stage: Stage, *, tries: int = TRIES, patience: float = PATIENCE) -> Provoked:
    """Leave one client waiting and the server asleep.

    The server lives on and ``client`` waits, for others to find and release it; its answer then
    stands in ``client.answer``. Up to ``tries`` fresh servers; each try is said.
    """
    result = attempt(stage, patience)
    for number in range(2, tries + 1):
        if result.happened:
            break
        stage.say(f"D3: try {number - 1} of {tries}: {result.outcome}")
        result.server.take_down()
        result = attempt(stage, patience)
    stage.say(f"D3: {result.outcome}")
    return result


def attempt(stage: Stage, patience: float = PATIENCE) -> Provoked:
    """One try on one server, unpoisoned: poison would crash the readers that come a little early."""
    server = stage.start(idle_seconds=IDLE_SECONDS)
    pinned = pin(server, stranding(patience), OFFSET)
    server.wait_until(lambda each: each.finished or not pinned.pending.waiting, SETTLE)
    answer = pinned.pending.answer
    if server.finished or answer is not None:
        outcome = CRASH if server.finished else ANSWERED
        answers = () if answer is None else (answer,)
        return closed("D3", EXPECTED, server, outcome, happened=False, answers=answers)
    return _stranded(server, pinned)


def _stranded(server: RunningServer, pinned: Pinned) -> Provoked:
    asleep = asleep_by_props(server)
    notes = ("the server is asleep and the client waits",) if asleep else ("the server is not asleep",)
    return Provoked(
        "D3",
        EXPECTED,
        asleep,
        HANG,
        server,
        CoreSearch(None, "the server lives"),
        KernelLines(),
        client=pinned.pending,
        notes=notes,
    )


def release(result: Provoked, deadline: float) -> Ending | None:
    """Take the stranded server down in an orderly way; the lab's own stand-in for the collector's release."""
    result.server.get("/slots", timeout=deadline)
    if result.client is not None:
        result.client.wait(deadline)
    return result.server.terminate(deadline)
