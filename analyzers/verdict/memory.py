"""Memory faults under a reader of the model: what D1 and D2 have in common."""

from __future__ import annotations

import signal

from analyzers.verdict.case import Case
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import at_most
from analyzers.verdict.reading import SCANNED, StackReading
from analyzers.verdict.sleep import SleepStory

SIGBUS, SIGABRT = int(signal.SIGBUS), int(signal.SIGABRT)
MEMORY_SIGNALS = (int(signal.SIGSEGV), SIGBUS)
OWN_RUNGS = ("eu-stack", "stride", "gdb")


def memory_fault(case: Case, ending: Ending, crash: StackReading | None) -> bool:
    """A wild read, or heap damage that the allocator itself noticed under a reader of the model.

    A signal that somebody sent is no fault, and a mapped model file that shrank is its own story (BUS).
    """
    if ending.sent or (ending.signal == SIGBUS and case.fault_in_model_file):
        return False
    if ending.signal in MEMORY_SIGNALS:
        return True
    damage = any(seen.fact.shape == "malloc" for seen in case.aborts) or bool(crash and crash.in_allocator)
    return ending.signal == SIGABRT and damage and not (crash and crash.exception)


def by_trust(confidence: str, crash: StackReading) -> str:
    """Text is no core: a pasted stack carries at most strong, one that a client could have printed weak."""
    if crash.forgeable or crash.stack.rung == SCANNED:  # a scanned stack may hold frames of an earlier call
        return at_most(confidence, "weak")
    return confidence if crash.stack.rung in OWN_RUNGS else at_most(confidence, "strong")


def witnesses(case: Case, ending: Ending, crash: StackReading, story: SleepStory) -> tuple[str, ...]:
    """Ids of everything that such a verdict rests on, each once."""
    loop = (case.loop.id,) if case.loop else ()
    pointers = tuple(seen.id for seen in case.pointers)
    return tuple(dict.fromkeys((*ending.witnesses, crash.id, *loop, *pointers, *story.witnesses)))
