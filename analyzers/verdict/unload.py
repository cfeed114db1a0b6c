"""Rules for D2: sleep freed the model while a request was reading it.

D1 and D2 can have the very same top frames (measured: docs/verdicts.md). What tells them apart is the
route handler and the queue loop: D1 needs the handler that takes the vocabulary as an argument, a loop
that is awake, and a wake just before; D2 needs a reader past the barrier while the loop is on its way
to sleep, asleep, waking or just woken.
"""

from __future__ import annotations

from analyzers.contracts.facts import LoopFact
from analyzers.verdict.asks import CORE_ASK
from analyzers.verdict.case import Case
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Finding
from analyzers.verdict.memory import MEMORY_SIGNALS, OWN_RUNGS, by_trust, memory_fault, witnesses
from analyzers.verdict.reading import StackReading
from analyzers.verdict.sleep import SleepStory
from analyzers.verdict.tied import loose

GONE = ("unloading", "asleep", "waking")


def unload_under_reader(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """D2: sleep freed the model while a request was reading it."""
    crash = case.crash
    if crash is None or not memory_fault(case, ending, crash) or not crash.reads_model_under_handler:
        return None
    if crash.recursion and crash.recursion_reads != "model":
        return None  # the request's own depth (JSON, regex), whatever the loop does
    how = _how_gone(case, story)
    unsigned = crash.maybe_stale and crash.stale_signature is None
    if (how == "log" and crash.maybe_stale) or (how == "late" and unsigned):
        return _either(case, ending, story, crash)
    if how is None:
        return None
    loop = case.loop.fact if case.loop else None
    phase = _gone_phase(loop, story) if loop is not None and how == "core" else "asleep"
    phase = "first-request-after-wake" if how in ("just-woken", "late") else phase
    return Finding(
        "SEGV-UAF-SLEEP",
        "sleep",
        phase,
        by_trust("weak" if how != "core" and loose(case) else _d2_confidence(how, crash), crash),
        "The idle timer put the server to sleep while a request was still reading the model, "
        "which was freed under it.",
        "D2",
        crash.handler,
        _d2_reasons(how, phase, crash, loop is not None and loop.sleeping is True and "flags" in loop.how),
        witnesses(case, ending, crash, story),
        () if loop is not None else (CORE_ASK,),
    )


def _how_gone(case: Case, story: SleepStory) -> str | None:
    """The witness for a model that went away: core (the loop itself), just-woken, log, late, or None."""
    loop = case.loop.fact if case.loop else None
    if loop is not None and (loop.phase in GONE or loop.sleeping is True):
        return "core"
    if not story.slept:
        return None
    if loop is not None and loop.phase == "just-woken":
        return "just-woken"
    if loop is None and story.phase == "asleep":
        return "log"
    return "late" if story.just_woken else None


def _gone_phase(loop: LoopFact, story: SleepStory) -> str:
    """Frames of the sleep callback alone fit both ways; then the log's last transition tells which it was."""
    if loop.phase != "unknown":
        return loop.phase
    return {"asleep": "unloading", "waking": "waking"}.get(story.phase, "unknown")


def _d2_confidence(how: str, crash: StackReading) -> str:
    direct = not crash.in_allocator or bool(crash.recursion)
    if how == "core" and direct and crash.stack.rung in OWN_RUNGS:
        return "proven"
    # a reader that outlived sleep AND wake looks like a request that fails on the new model
    return "weak" if how == "late" else "strong"


def _d2_reasons(how: str, phase: str, crash: StackReading, flag: bool) -> tuple[str, ...]:
    reasons = [
        f"the fault is in {crash.model_reader} under {crash.handler}: "
        "a request past the wake barrier was reading the model",
        _LOOP_SENTENCES[how if how != "core" else phase] + (" (its sleeping flag is set)" if flag else ""),
    ]
    if crash.recursion:
        reasons.append(
            f"the stack overflow is an endless recursion of {crash.recursion} over freed memory "
            f"({crash.depth:,} frames), not a deep request"
        )
    if crash.stale_signature and how == "core":
        reasons.append("the handler has D1's mark, but the loop is not awake: the model went away under it")
    return tuple(reasons)


_LOOP_SENTENCES = {
    "unloading": "the queue loop is freeing the model in the same core",
    "asleep": "the queue loop is asleep in the same core: the model is already freed",
    "waking": "the queue loop is loading the model again in the same core",
    "unknown": "the queue loop is inside a sleep transition in the same process: the model is "
    "being unloaded, is gone or is loaded again",
    "just-woken": "the queue loop has just woken and this process's log shows the sleep before",
    "log": "the last line of this process's log is that it goes to sleep; no wake follows",
    "late": "the log shows a sleep and a wake just before; a reader that began earlier fits, and so does "
    "a fault on the new model",
}


def _either(case: Case, ending: Ending, story: SleepStory, crash: StackReading) -> Finding:
    """D1's handler and a log that ends asleep: a crash loses last lines, so the wake may just be missing."""
    return Finding(
        "SEGV-UAF-SLEEP",
        "sleep",
        "unknown",
        "weak",
        "A token-counting request read a model that sleep had freed; D1 and D2 both fit.",
        None,
        crash.handler,
        (
            f"the fault is in {crash.model_reader} under {crash.handler}, "
            + (
                "which has D1's mark"
                if crash.stale_signature
                else "whose arguments (D1's mark) are not shown"
            ),
            "the log ends with going to sleep; a crash can lose the lines of the wake that D1 needs"
            if story.phase == "asleep"
            else "the log ends in a wake: D1 fits, and so does a reader that began before the sleep",
            "only the queue loop's state at the fault can tell D1 from D2",
        ),
        witnesses(case, ending, crash, story),
        (CORE_ASK,),
    )


def _who_saw(case: Case) -> str:
    """The memory fault in the words of whoever told of it."""
    if any(seen.fact.shape in ("segfault", "gpf") for seen in case.kernel):
        return "the kernel saw a memory fault in this process"
    if case.cores:
        return "the core shows a memory fault"
    told = {"docker": "the container's", "systemd": "the unit's", "trace": "a trace's"}
    by = next((seen.fact.by for seen in case.exits if not seen.forgeable), "")
    return f"{told.get(by, 'the reported')} status says that a memory fault ended it; no kernel line does"


def suspicion(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """A memory fault without a stack, right at a sleep transition: named, never more than weak."""
    crash = case.crash
    if crash is not None and crash.named:
        return None
    if not memory_fault(case, ending, None) or ending.signal not in MEMORY_SIGNALS or not story.slept:
        return None
    overflow = case.overflowed
    woke = story.just_woken
    if not (story.phase == "asleep" or (woke and not overflow)):
        return None
    return Finding(
        "SEGV-UAF-SLEEP",
        "wake" if woke else "sleep",
        "first-request-after-wake" if woke else "asleep",
        "weak",
        "The process died of a memory fault right at a sleep transition; "
        "without a readable stack this is the likeliest reading.",
        "D1" if woke else "D2",
        None,
        (
            _who_saw(case),
            "the last transition in its log is "
            + ("a wake, with no request after it" if woke else "going to sleep, with no wake after it"),
            "no stack with names tells whether a request was reading the model",
        ),
        ending.witnesses + story.witnesses,
        (CORE_ASK,),
    )
