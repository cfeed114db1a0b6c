"""Rules for D1: the token-counting handler kept the vocabulary from before the wake."""

from __future__ import annotations

from analyzers.catalogue.builds import build_number_of
from analyzers.catalogue.loader import load_catalogue
from analyzers.verdict.asks import BUILD_ASK, CORE_ASK, KERNEL_ASK, OWN_LOG_ASK
from analyzers.verdict.case import Case
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Ask, Finding, at_most
from analyzers.verdict.memory import SIGABRT, by_trust, memory_fault, witnesses
from analyzers.verdict.own import sleep_off
from analyzers.verdict.reading import StackReading
from analyzers.verdict.sleep import SleepStory
from analyzers.verdict.tied import OTHER, SAME, loose, tasks_untold, wake_moment

# A stale read follows its wake by the time it takes to parse one request: measured 1 to 12 ms, more for
# a long prompt. The kernel's stamp and CLOCK_MONOTONIC may drift apart by a few ms on a young host.
WAKE_TO_FAULT_MS = 2_000
CLOCK_SKEW_MS = 50
FITS_D1 = (
    "A token count died reading the model. It fits D1; nothing here tells whether it had woken the server."
)
GONE = ("unloading", "asleep", "waking", "stopping")
WITHOUT_D1 = ("fixed", "absent")
FATAL_SHAPES = ("segfault", "gpf")


def stale_capture(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The model that the handler kept was freed by the sleep before this very request's wake.

    Only the request that wakes the server can hold a stale pointer, so the wake must be the last thing
    that happened: by the log (no task since) or by the queue's own clock against the kernel's.
    """
    crash = case.crash
    if crash is None or not memory_fault(case, ending, crash) or not _marked(crash):
        return None
    if not story.slept or _model_gone(case) or (story.phase in ("asleep", "loading") and not _awake(case)):
        return None
    margin = wake_margin_ms(case)
    confidence = at_most(_confidence(case, story, margin), "weak" if _contradicted(case) else "proven")
    return Finding(
        "SEGV-UAF-SLEEP",
        "wake",
        "first-request-after-wake",
        by_trust(confidence, crash),
        "A token-counting request woke the server and then read the vocabulary that sleep had freed.",
        "D1",
        crash.handler,
        _reasons(case, crash, margin),
        witnesses(case, ending, crash, story),
        _asks(case, margin),
    )


def _marked(crash: StackReading) -> bool:
    return crash.reads_model_under_handler and crash.stale_signature is True and not crash.regex


def _awake(case: Case) -> bool:
    return case.loop is not None and case.loop.fact.phase in ("awake", "just-woken")


def _model_gone(case: Case) -> bool:
    loop = case.loop.fact if case.loop else None
    return loop is not None and (loop.phase in GONE or loop.sleeping is True)


def _confidence(case: Case, story: SleepStory, margin: float | None) -> str:
    flags = case.loop is not None and case.loop.fact.sleeping is False
    moment = wake_moment(case)
    if (margin is not None and margin > WAKE_TO_FAULT_MS) or moment == OTHER:
        return "weak"  # the queue's last wake or task lies too far back, or is not the log's
    # a log that ends asleep beside a loop that is awake has lost the wake's lines, or is another server's
    lost = story.phase == "asleep" and _awake(case)
    if not (story.just_woken or lost):
        return "weak"
    if moment != SAME and (loose(case) or tasks_untold(case)):
        return "weak"
    dated = margin is not None and margin >= -CLOCK_SKEW_MS and _awake(case) and flags
    if lost:
        return "strong" if dated else "weak"
    return "proven" if dated and moment == SAME else "strong"


def _reasons(case: Case, crash: StackReading, margin: float | None) -> tuple[str, ...]:
    reasons = [
        f"the fault is in {crash.model_reader} under {crash.handler}, on an HTTP thread",
        "that handler takes the vocabulary as an argument, read before the wake barrier (D1's mark)",
        "this process had slept and was woken: the model it read had been freed by the sleep",
    ]
    if _awake(case):
        reasons.append("the queue loop is awake in the core, so the model was not being unloaded (not D2)")
    if margin is not None and margin > WAKE_TO_FAULT_MS:
        reasons.append(f"but the queue's last wake or task lies {margin / 1000:,.1f} s before the fault")
    elif margin is not None and margin >= -CLOCK_SKEW_MS:
        # the two clocks drift apart by milliseconds within hours, so the sign of a small distance is noise
        reasons.append(
            "the queue's memory says awake; its last wake and the kernel's stamp of the fault "
            f"lie {abs(margin):.1f} ms apart"
        )
    elif margin is not None:
        reasons.append(
            "the kernel's clock and the queue's disagree, so the wake is not dated against the fault"
        )
    if case.log and case.cores:
        reasons.append(_whose_log(case))
    if _contradicted(case):
        reasons.append(
            "but the build that the log names does not have this defect: one of the two is foreign"
        )
    return tuple(reasons)


def _whose_log(case: Case) -> str:
    moment = wake_moment(case)
    if moment == SAME:
        return "the log's last wake is the one in the queue's own memory: the log is this very process's"
    if moment == OTHER:
        return "but the log's last wake is not the one in the queue's memory: the log is another life's"
    if loose(case):
        return "but nothing shows that the log is this process's"
    if tasks_untold(case):
        return "but the queue has numbered tasks that the log does not show: it may be another life's"
    return "the log's stamps cannot be held against the queue's memory: its wake may not be this one"


def _asks(case: Case, margin: float | None) -> tuple[Ask, ...]:
    asks = [] if _awake(case) else [CORE_ASK]
    if _awake(case) and margin is None and not _fault_stamps(case):
        asks.append(KERNEL_ASK)
    if case.cores and case.log and wake_moment(case) != SAME:
        asks.append(OWN_LOG_ASK)
    return (*asks, *((BUILD_ASK,) if _contradicted(case) else ()))


def _contradicted(case: Case) -> bool:
    """The build that this process names itself cannot have the handler that stands on the stack."""
    numbers = [build_number_of(seen.fact.build) for seen in case.log if seen.fact.build]
    known = [number for number in numbers if number is not None]
    return bool(known) and load_catalogue().affected("D1", known[-1]).status in WITHOUT_D1


def stale_capture_abort(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """D1 that a check inside the tokenizer noticed: it aborts on a vocabulary that no load can make.

    The server prints its own backtrace first, which takes seconds; the loop may be anywhere by the time the
    core is written, so its state is no witness here (measured: it had gone to sleep again).
    """
    crash = case.crash
    if crash is None or ending.signal != SIGABRT or not crash.aborts_in_reader:
        return None
    if not (crash.stale_signature and crash.handler and story.slept and story.timeline.woke):
        return None
    fresh = story.tasks_after_wake == 0 and not _contradicted(case) and not loose(case)
    return Finding(
        "SEGV-UAF-SLEEP",
        "wake",
        "first-request-after-wake",
        by_trust("strong" if fresh else "weak", crash),
        "A token-counting request woke the server and then read the vocabulary that sleep had freed; "
        "a check in the tokenizer noticed.",
        "D1",
        crash.handler,
        (
            f"{crash.model_reader} aborted under {crash.handler}: the vocabulary it was given made no sense",
            "that handler takes the vocabulary as an argument, read before the wake barrier (D1's mark)",
            "this process had slept and was woken"
            + (", but not by the last request" if story.tasks_after_wake else ""),
            "the queue loop's state in the core is not counted: the backtrace was printed first",
        ),
        tuple(dict.fromkeys((*ending.witnesses, crash.id, *story.witnesses))),
    )


def wake_margin_ms(case: Case) -> float | None:
    """Milliseconds from the queue's last wake or task to the kernel's stamp; None without both."""
    stamps = _fault_stamps(case)
    loop = case.loop
    if not stamps or loop is None or loop.fact.time_last_task_ms is None:
        return None
    return stamps[-1] * 1000.0 - loop.fact.time_last_task_ms


def _fault_stamps(case: Case) -> list[float]:
    """When the kernel saw this thread fault; a line about another thread is not about this fault."""
    tid = next((seen.fact.crashed_tid for seen in case.cores if seen.fact.crashed_tid is not None), None)
    return [
        seen.evidence.mono
        for seen in case.kernel
        if seen.evidence.mono is not None
        and seen.fact.shape in FATAL_SHAPES
        and (tid is None or seen.fact.tid is None or seen.fact.tid == tid)
    ]


def fits_stale(case: Case, story: SleepStory) -> bool:
    """All of D1 but a sign of sleep, and nothing that excludes one."""
    crash = case.crash
    told = crash is not None and crash.reads_model_under_handler and crash.stale_signature is True
    return told and not story.slept and sleep_off(case) is None and not (crash and crash.regex)
