"""D2 without a stack: the instruction of the thread that died, and the queue's own flags.

A core cut down to its notes and the page of the queue still holds both. The instruction is the kernel's
word, its name a symbol file's of the same build. No handler is claimed: nothing certain names one.
"""

from __future__ import annotations

from analyzers.contracts.facts import LoopFact
from analyzers.stacks.frames import name_of, reader_kind
from analyzers.stacks.trust import REGISTER, trust_of
from analyzers.verdict.case import Case
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Finding
from analyzers.verdict.memory import MEMORY_SIGNALS, memory_fault, witnesses
from analyzers.verdict.reading import StackReading
from analyzers.verdict.sleep import SleepStory
from analyzers.verdict.stale import CLOCK_SKEW_MS, wake_margin_ms

PHASES = ("unloading", "asleep", "waking")


def unload_under_instruction(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """D2: a thread other than the loop died inside a reader of the model while ``sleeping`` was set.

    Not for a stack overflow, which may be the request's own depth, and not where the thread that died holds
    the queue's mutex: the loop itself reads the vocabulary while it loads.
    """
    crash, loop = case.crash, case.loop
    if crash is None or loop is None or not memory_fault(case, ending, crash):
        return None
    reader = _reader(crash)
    if reader is None or ending.signal not in MEMORY_SIGNALS or case.overflowed:
        return None
    if not _model_gone(loop.fact, crash):
        return None
    phase = loop.fact.phase if loop.fact.phase in PHASES else "unknown"
    return Finding(
        "SEGV-UAF-SLEEP",
        "sleep",
        phase,
        _confidence(case),
        "The server had gone to sleep, or was on its way, while a request was still reading the model, "
        "which was freed under it.",
        "D2",
        None,
        _reasons(case, reader),
        witnesses(case, ending, crash, story),
    )


def _reader(crash: StackReading) -> str | None:
    """The reader of the model that the saved instruction itself lies in."""
    frame = next(iter(crash.stack.frames), None)
    own = frame is not None and crash.from_core and trust_of(frame, crash.stack.rung) == REGISTER
    if frame is None or not own or reader_kind(frame) != "model":
        return None
    return name_of(frame)


def _model_gone(loop: LoopFact, crash: StackReading) -> bool:
    tid = crash.stack.tid
    flags = "flags" in loop.how or any(how.startswith("flags:") for how in loop.how)
    others = loop.owner is not None and tid is not None and tid not in (loop.owner, loop.tid)
    return flags and loop.sleeping is True and others


def _confidence(case: Case) -> str:
    """Not proven where the kernel's stamp contradicts the queue's memory: one of the two was misread."""
    margin = wake_margin_ms(case)
    return "strong" if margin is not None and margin < -CLOCK_SKEW_MS else "proven"


def _reasons(case: Case, reader: str) -> tuple[str, ...]:
    margin = wake_margin_ms(case)
    reasons = [
        f"the instruction that faulted lies in {reader}, on a thread that is not the queue loop's",
        "the queue's own memory says sleeping = true: the model is being freed, is gone or is loaded again",
    ]
    if margin is not None and margin >= -CLOCK_SKEW_MS:
        reasons.append(f"its last task lies {max(0.0, margin) / 1000:,.1f} s before the kernel's stamp")
    elif margin is not None:
        reasons.append("but its last task would lie after the kernel's stamp: one of the two is misread")
    reasons += [seen.evidence.text for seen in case.pointers]
    return (*reasons, "no stack was at hand, so the request's handler is not known")
