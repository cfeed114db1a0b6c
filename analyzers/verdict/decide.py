"""The verdict pipeline: rules in order, first match wins; a failing rule becomes a note and sinks nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from analyzers.verdict import (
    aborts,
    answers,
    healthy,
    plain,
    routed,
    stale,
    stranded,
    unload,
)
from analyzers.verdict.case import Case
from analyzers.verdict.ending import HOST_SHAPES, Ending, find_ending
from analyzers.verdict.finding import Finding
from analyzers.verdict.own import asleep_by_memory, blames_sleep, own_case, sleep_off
from analyzers.verdict.reading import POOR_RUNGS, SCANNED
from analyzers.verdict.sleep import SleepStory, tell

Rule = Callable[[Case, Ending, SleepStory], Finding | None]


def _late(module: str, name: str, when: Callable[[Case, Ending], bool]) -> Rule:
    """A rule whose module is loaded only when ``when`` holds: a crash needs none of them."""

    def rule(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
        if not when(case, ending):
            return None
        judge: Rule = getattr(import_module(f"analyzers.verdict.{module}"), name)
        return judge(case, ending, story)

    rule.__name__ = name
    return rule


def _lives(case: Case, ending: Ending) -> bool:
    return ending.alive and not ending.known


def _worn(case: Case, ending: Ending) -> bool:
    return not ending.known and bool(case.memory or case.answers or case.events("device-free", "offloaded"))


def _poor(case: Case, ending: Ending) -> bool:
    """A core whose crashed thread has no certain callers: bare registers, or words on a stack besides."""
    crash = case.crash
    return crash is not None and bool(case.loops) and (crash.stack.rung in POOR_RUNGS or crash.alone)


def _host_spoke(case: Case, ending: Ending) -> bool:
    return bool(case.hosts) or any(seen.fact.shape in HOST_SHAPES for seen in case.kernel)


# Specific before general: what needs the most agreeing evidence comes first.
RULES: tuple[Rule, ...] = (
    stale.stale_capture,
    stale.stale_capture_abort,
    _late("registers", "unload_under_instruction", _poor),
    unload.unload_under_reader,
    plain.gpu_fault,
    aborts.shutdown,
    _late("machine", "host_failed", _host_spoke),
    _late("hangs", "aborting", _lives),
    _late("hangs", "held", _lives),
    stranded.stranded,
    answers.error_answer,
    aborts.aborted,
    aborts.pid_one,
    plain.sent,
    unload.suspicion,
    plain.stack_overflow,
    plain.bus_error,
    plain.simple_fault,
    plain.killed,
    routed.child_ended,
    plain.planned,
    plain.exit_error,
    _late("hangs", "gpu_stuck", _lives),
    _late("hangs", "loop_stuck", _lives),
    _late("slow", "http_taken", _lives),
    _late("wear", "sleep_leak", _worn),
    _late("wear", "degraded", _worn),
    healthy.never_sleeps,
    _late("slow", "load_slow", _lives),
    _late("slow", "transition", _lives),
    _late("slow", "moving", _lives),
    healthy.alive,
    stranded.left_behind,
)


def _handler_unsure(case: Case, finding: Finding) -> bool:
    """A handler that only words on a stack name is told by a weak verdict and by no other."""
    return case.crash is not None and case.crash.stack.rung == SCANNED and finding.confidence != "weak"


def _disputed(finding: Finding) -> Finding:
    """The queue's own memory says asleep and the settings say never: one of the two is misread."""
    reason = "but it was started with sleep off, and its memory says that it slept: one of the two is misread"
    return replace(finding, confidence="weak", reasons=(*finding.reasons, reason))


def decide(case: Case, notes: list[str] | None = None) -> Finding:
    """The first rule that concludes, else UNDETERMINED with the list of what to collect."""
    case, asks = own_case(case)
    finding = _first(case, notes)
    return replace(finding, asks=(*finding.asks, *asks)) if asks else finding


def _first(case: Case, notes: list[str] | None) -> Finding:
    ending, story = find_ending(case), tell(case)
    off = sleep_off(case) is not None
    for rule in RULES:
        try:
            finding = rule(case, ending, story)
        except Exception as problem:  # noqa: BLE001 - one broken rule must not hide the others' verdict
            if notes is not None:
                notes.append(f"rule {rule.__name__} failed: {type(problem).__name__}")
            continue
        if finding is not None and off and blames_sleep(finding) and not asleep_by_memory(case):
            continue  # a process that was started with sleep off has neither slept nor woken
        if finding is not None:
            finding = _disputed(finding) if off and blames_sleep(finding) else finding
            weak = case.foreign_core and finding.confidence != "undetermined"
            finding = replace(finding, confidence="weak") if weak else finding
            return replace(finding, handler=None) if _handler_unsure(case, finding) else finding
    from analyzers.verdict.undecided import undetermined  # a verdict needs none of it

    return undetermined(case, ending, story)
