"""Rules for reads of a model that sleep has freed: D1, D2 and the error or wrong answer they can give.

D1 and D2 can have the very same top frames (measured: docs/verdicts.md). What tells them apart is the
route handler and the queue loop: D1 needs the handler that takes the vocabulary as an argument, a loop
that is awake, and a wake just before; D2 needs a reader past the barrier while the loop is on its way
to sleep, asleep, waking or just woken.
"""

from __future__ import annotations

import signal

from analyzers.contracts.facts import LoopFact
from analyzers.verdict.case import Case, ids_of
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Ask, Finding, at_most
from analyzers.verdict.reading import StackReading
from analyzers.verdict.sleep import SleepStory

MEMORY_SIGNALS = (int(signal.SIGSEGV), int(signal.SIGBUS))
# A stale read follows its wake by the time it takes to parse one request: measured 1 to 12 ms, more for
# a long prompt. The kernel's stamp and CLOCK_MONOTONIC may drift apart by a few ms on a young host.
WAKE_TO_FAULT_MS = 2_000
CLOCK_SKEW_MS = 50
GONE = ("unloading", "asleep", "waking")

KERNEL_ASK = Ask(
    "the kernel's line about this fault",
    "its time against the queue's last wake turns a strong D1 into a proven one",
    "journalctl -k --since '-1 hour' -o short-monotonic | grep -E 'segfault|general protection'",
)
CORE_ASK = Ask(
    "a core of the crash",
    "only the loop thread's state tells which transition freed the model",
    "coredumpctl dump --output=core.llama PID",
)
ANSWER_ASK = Ask(
    "the answer that the client got, beside the same request's answer from the awake server",
    "an error line in a log alone is weak: the two answers show that sleep made the difference",
    "curl -s -w '\\n%{http_code}\\n' http://HOST:PORT/ROUTE -d @request.json",
)
LOG_ASK = Ask(
    "the server's log of this process",
    "sleep is blamed only with a sleep line or sleep state of the same process",
    "journalctl -u UNIT --since '-1 hour' -o export > server.export",
)


def memory_fault(case: Case, ending: Ending, crash: StackReading | None) -> bool:
    """A wild read, or heap damage that the allocator itself noticed under a reader of the model."""
    if ending.signal in MEMORY_SIGNALS:
        return True
    damage = any(seen.fact.shape == "malloc" for seen in case.aborts) or bool(crash and crash.in_allocator)
    return ending.signal == int(signal.SIGABRT) and damage and not (crash and crash.exception)


def stale_capture_abort(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """D1 that a check inside the tokenizer noticed: it aborts on a vocabulary that no load can make.

    The server prints its own backtrace first, which takes seconds; the loop may be anywhere by the time the
    core is written, so its state is no witness here (measured: it had gone to sleep again).
    """
    crash = case.crash
    if crash is None or ending.signal != int(signal.SIGABRT) or not crash.aborts_in_reader:
        return None
    woken = any(seen.fact.event == "exit-sleep" for seen in story.transitions)
    if not (crash.stale_signature and crash.handler and story.slept and woken):
        return None
    return Finding(
        "SEGV-UAF-SLEEP",
        "wake",
        "first-request-after-wake",
        "strong",
        "A token-counting request woke the server and then read the vocabulary that sleep had freed; "
        "a check in the tokenizer noticed.",
        "D1",
        crash.handler,
        (
            f"{crash.model_reader} aborted under {crash.handler}: the vocabulary it was given made no sense",
            "that handler takes the vocabulary as an argument, read before the wake barrier (D1's mark)",
            "this process had slept and was woken",
            "the queue loop's state in the core is not counted: the backtrace was printed first",
        ),
        tuple(dict.fromkeys((*ending.witnesses, crash.id, *story.witnesses))),
    )


def stale_capture(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """D1: the token-counting handler kept the vocabulary from before the wake."""
    crash = case.crash
    if crash is None or not memory_fault(case, ending, crash) or not crash.reads_model_under_handler:
        return None
    if crash.stale_signature is not True or crash.regex:
        return None
    loop = case.loop.fact if case.loop else None
    if loop is not None and (loop.phase in GONE or loop.sleeping):
        return None
    if not story.slept:
        return None
    awake = loop is not None and loop.phase in ("awake", "just-woken")
    margin = wake_margin_ms(case)
    proven = awake and loop is not None and loop.sleeping is False and margin is not None and _close(margin)
    if story.phase in ("asleep", "loading") and not awake:
        return None
    reasons = [
        f"the fault is in {crash.model_reader} under {crash.handler}, on an HTTP thread",
        "that handler takes the vocabulary as an argument, read before the wake barrier (D1's mark)",
        "this process had slept and was woken: the model it read had been freed by the sleep",
    ]
    if awake:
        reasons.append("the queue loop is awake in the core, so the model was not being unloaded (not D2)")
    asks = [] if awake else [CORE_ASK]
    if proven and margin is not None:
        reasons.append(
            f"the queue's memory says awake, last woken {margin:.1f} ms before the kernel saw the fault"
        )
    elif awake and not _fault_stamps(case):
        asks.append(KERNEL_ASK)
    confidence = "proven" if proven else "strong"
    if story.phase == "awake" and not awake:
        confidence = "weak"
    return Finding(
        "SEGV-UAF-SLEEP",
        "wake",
        "first-request-after-wake",
        _by_trust(confidence, crash),
        "A token-counting request woke the server and then read the vocabulary that sleep had freed.",
        "D1",
        crash.handler,
        tuple(reasons),
        _witnesses(case, ending, crash, story),
        tuple(asks),
    )


def unload_under_reader(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """D2: sleep freed the model while a request was reading it."""
    crash = case.crash
    if crash is None or not memory_fault(case, ending, crash) or not crash.reads_model_under_handler:
        return None
    if crash.recursion and crash.recursion_reads != "model":
        return None  # the request's own depth (JSON, regex), whatever the loop does
    how = _how_gone(case, story)
    if how == "log" and crash.stale_signature:
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
        _by_trust(_d2_confidence(how, crash), crash),
        "The idle timer put the server to sleep while a request was still reading the model, "
        "which was freed under it.",
        "D2",
        crash.handler,
        _d2_reasons(how, phase, crash, loop is not None and loop.sleeping is True and "flags" in loop.how),
        _witnesses(case, ending, crash, story),
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
    if how == "core" and direct and crash.stack.rung in ("eu-stack", "stride", "gdb"):
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
    "unknown": "the queue loop is between awake and awake in the same process: the model is being unloaded, "
    "is gone or is loaded again",
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
            f"the fault is in {crash.model_reader} under {crash.handler}, which has D1's mark",
            "the log ends with going to sleep; a crash can lose the lines of the wake that D1 needs",
            "only the queue loop's state at the fault can tell D1 from D2",
        ),
        _witnesses(case, ending, crash, story),
        (CORE_ASK,),
    )


def error_answer(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The same reads as D2, answered with an error or a wrong answer; the server lives."""
    odd = [s for s in case.answers if s.fact.expected is False or _map_error(s.fact.error)]
    logged = [s for s in story.failed_asleep if not s.forgeable and _map_error(s.evidence.text)]
    if not (odd or logged) or ending.known or not story.slept:
        return None
    mapped = any(_map_error(seen.fact.error) for seen in odd)
    return Finding(
        "ERROR-UAF-SLEEP",
        "sleep",
        "asleep" if story.phase == "unknown" else story.phase,
        "strong" if mapped and ending.alive else "weak",
        "A request read the model while sleep was freeing it and came back with an error or a wrong answer.",
        "D2",
        None,
        _error_reasons(mapped, bool(odd), bool(logged)),
        tuple(dict.fromkeys((*ids_of(odd, logged), *story.witnesses))),
        () if odd else (ANSWER_ASK,),
    )


def _error_reasons(mapped: bool, odd: bool, logged: bool) -> tuple[str, ...]:
    reasons = []
    if mapped:
        reasons.append("the server answered with a lookup failure inside its own vocabulary (_Map_base::at)")
    elif odd:
        reasons.append("an answer differs from what the awake server gives")
    if logged:
        reasons.append(
            "the log shows that lookup failure after going to sleep and before any wake: "
            "the request had passed the wake barrier before"
        )
    return (*reasons, "the server went to sleep while that request was running")


def suspicion(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """A memory fault without a stack, right at a sleep transition: named, never more than weak."""
    if case.crash is not None or ending.signal not in MEMORY_SIGNALS or not story.slept:
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
        "without a stack this is the likeliest reading.",
        "D1" if woke else "D2",
        None,
        (
            "the kernel saw a memory fault in this process",
            "the last transition in its log is "
            + ("a wake, with no request after it" if woke else "going to sleep, with no wake after it"),
            "no stack tells whether a request was reading the model",
        ),
        ending.witnesses + story.witnesses,
        (CORE_ASK,),
    )


def wake_margin_ms(case: Case) -> float | None:
    """Milliseconds from the queue's last wake or task to the kernel's stamp; None without both."""
    stamps = _fault_stamps(case)
    loop = case.loop
    if not stamps or loop is None or loop.fact.time_last_task_ms is None:
        return None
    return stamps[0] * 1000.0 - loop.fact.time_last_task_ms


def _fault_stamps(case: Case) -> list[float]:
    return [s.evidence.mono for s in case.kernel if s.evidence.mono is not None and not s.forgeable]


def _close(margin: float) -> bool:
    return -CLOCK_SKEW_MS <= margin <= WAKE_TO_FAULT_MS


def _map_error(error: str | None) -> bool:
    return error is not None and "_Map_base::at" in error


def _by_trust(confidence: str, crash: StackReading) -> str:
    return at_most(confidence, "strong") if crash.stack.rung in ("pasted", "self-trace") else confidence


def _witnesses(case: Case, ending: Ending, crash: StackReading, story: SleepStory) -> tuple[str, ...]:
    loop = (case.loop.id,) if case.loop else ()
    return tuple(dict.fromkeys((*ending.witnesses, crash.id, *loop, *story.witnesses)))
