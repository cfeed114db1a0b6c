"""D2: the server goes to sleep while a request reads the model (xllamacpp 2026.10.11549)."""

from __future__ import annotations

from dataclasses import dataclass

from collector.lab.faults.pinning import Pinned, pin
from collector.lab.faults.prompts import (
    foreign_completion,
    foreign_tokenize,
    long_completion,
    long_tokenize,
    touch,
)
from collector.lab.faults.provoked import (
    ANSWERED,
    CRASH,
    DEATH_DEADLINE,
    ERROR,
    HANG,
    WRONG,
    Expected,
    Provoked,
    Stage,
    closed,
)
from collector.lab.reference.client import Answer, Request
from collector.lab.reference.conditions import ENTERING, exited
from collector.lab.reference.server import RunningServer

IDLE_SECONDS = 1
# Under a debugger the same tokenising takes three times as long and must still end before the limit.
GDB_IDLE_SECONDS = 2
TRIES = 5
# Where in a short request the sleep is wanted: its first part is sending and parsing, its last the answer.
SHARE_OF_REQUEST = 0.4
# How long a request is watched before it counts as waiting for ever; awake it takes under half a second.
PATIENCE = 4.0
GDB_PATIENCE = 15.0
# The error a look-up in the emptied vocabulary answers with; see libstdc++'s unordered_map::at.
EMPTY_VOCABULARY = b"_Map_base::at"
PHASES = ("asleep", "unloading")


@dataclass(frozen=True)
class Shape:
    """One way into the window. ``offset`` is the time from sending to the poke, in seconds: well inside
    the tokenising, which starts a few milliseconds after sending."""

    name: str
    request: Request
    handler: str
    offset: float
    poisoned: bool = True
    wanted: str = CRASH


COMPLETION = Shape("D2-completion", long_completion(), "handle_completions_impl", 0.1)
TOKENIZE = Shape("D2-tokenize", long_tokenize(), "tokenize", 0.1)
COMPLETION_UNPOISONED = Shape(
    "D2-completion-unpoisoned", long_completion(), "handle_completions_impl", 0.1, poisoned=False
)
TOKENIZE_UNPOISONED = Shape("D2-tokenize-unpoisoned", long_tokenize(), "tokenize", 0.1, poisoned=False)
TOKENIZE_ERROR = Shape(
    "D2-error-tokenize", foreign_tokenize(), "tokenize", 0.05, poisoned=False, wanted=ERROR
)
COMPLETION_ERROR = Shape(
    "D2-error-completion", foreign_completion(), "handle_completions_impl", 0.05, poisoned=False, wanted=ERROR
)


def provoke(stage: Stage, shape: Shape = COMPLETION, *, tries: int = TRIES) -> Provoked:
    """Pin the sleep into ``shape``'s request, on a fresh server each time, until the wanted outcome.

    Up to ``tries`` times; each is said. The last try is returned when none had the wanted outcome.
    """
    result: Provoked | None = None
    for number in range(1, max(1, tries) + 1):
        result = attempt(stage, shape)
        stage.say(f"{shape.name}: try {number} of {tries}: {result.outcome}")
        if result.happened:
            break
        result.server.take_down()
    assert result is not None  # noqa: S101 - at least one try was made
    return result


def attempt(stage: Stage, shape: Shape) -> Provoked:
    """One try. Only against the awake answer to the same request can an answer be called wrong: an
    unpoisoned shape, which may well be answered, sends it first; a poisoned one only when needed."""
    idle = GDB_IDLE_SECONDS if stage.under_gdb else IDLE_SECONDS
    server = stage.start(idle_seconds=idle, poisoned=shape.poisoned)
    baseline = None if shape.poisoned else server.send(shape.request)
    disturbed = server.transitions(ENTERING) > 0  # too slow a machine: the awake request met a sleep
    pinned = pin(server, shape.request, offset_within(shape.offset, baseline))
    answer = _watch(server, pinned)
    if baseline is None and answer is not None and answer.status is not None:
        server.send(touch())
        baseline = server.send(shape.request)
    outcome = classify(server.ending is not None, answer, baseline)
    # that the server lives on is half of what an answer tells
    health = None if server.finished else server.get("/health")
    return closed(
        shape.name,
        _expected(shape, outcome),
        server,
        outcome,
        happened=outcome == shape.wanted and not disturbed,
        answers=tuple(each for each in (baseline, answer) if each is not None),
        notes=_notes(server, pinned, answer, disturbed),
        health=health,
    )


def offset_within(offset: float, baseline: Answer | None) -> float:
    """``offset``, or less when this machine answers the whole request sooner than that. Seconds."""
    return offset if baseline is None else min(offset, baseline.seconds * SHARE_OF_REQUEST)


def _watch(server: RunningServer, pinned: Pinned) -> Answer | None:
    """Wait for the answer or the end; a broken connection announces an end. The fault can come seconds before
    the end: writing a large core keeps the process, and its connections, as they are; so does gdb."""
    patience = GDB_PATIENCE if server.under_gdb else PATIENCE
    server.wait_until(lambda each: each.ending is not None or not pinned.pending.waiting, patience)
    answer = pinned.pending.answer
    broken = answer is not None and answer.status is None
    if server.ending is not None or broken or server.dumping:
        server.wait_until(exited, DEATH_DEADLINE)
        answer = pinned.pending.wait(PATIENCE)
    return answer


def classify(ended: bool, answer: Answer | None, baseline: Answer | None) -> str:
    """What became of a pinned request, from the process, its answer and the awake answer."""
    if ended:
        return CRASH
    if answer is None or answer.status is None:
        return HANG
    if EMPTY_VOCABULARY in answer.body or answer.status >= 500:
        return ERROR
    right = baseline is not None and telling(answer) == telling(baseline)
    return ANSWERED if right else WRONG


def telling(answer: Answer) -> tuple[int | None, object]:
    """The part of an answer that must not depend on sleep: status, tokens, error text."""
    body = answer.json()
    if not isinstance(body, dict):
        return answer.status, answer.body
    return answer.status, body.get("tokens") or body.get("error") or body.get("input_tokens")


def _expected(shape: Shape, outcome: str) -> Expected:
    """What the outcome must be diagnosed as: the window is D3's as well, when the reading survives."""
    if outcome == HANG:
        return Expected("HANG-STRANDED", ("sleep",), ("asleep",), "D3")
    if outcome == CRASH:
        return Expected("SEGV-UAF-SLEEP", ("sleep",), PHASES, "D2", (shape.handler,))
    if outcome == ANSWERED:
        return Expected("NO-FAULT", ("unknown",), (*PHASES, "awake", "unknown"))
    return Expected("ERROR-UAF-SLEEP", ("sleep",), (*PHASES, "unknown"), "D2")


def _notes(server: RunningServer, pinned: Pinned, answer: Answer | None, disturbed: bool) -> tuple[str, ...]:
    notes = ["the awake request took longer than the idle limit"] if disturbed else []
    notes += ["the server slept before the request was sent"] if pinned.early else []
    entered = server.output.first("server is entering sleeping state")
    if entered is not None:
        notes.append(f"sleep line {(entered.mono - pinned.poked) * 1000:.1f} ms after the poke")
    if answer is not None and answer.status is not None:
        notes.append(f"answered with status {answer.status}")
    return tuple(notes)
