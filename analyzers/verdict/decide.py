"""The verdict pipeline: rules in order, first match wins; a failing rule becomes a note and sinks nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from analyzers.verdict import (
    aborts,
    answers,
    hangs,
    machine,
    plain,
    routed,
    slow,
    stale,
    stranded,
    unload,
    wear,
)
from analyzers.verdict.case import Case
from analyzers.verdict.ending import Ending, find_ending
from analyzers.verdict.finding import Finding
from analyzers.verdict.sleep import SleepStory, tell
from analyzers.verdict.undecided import undetermined

Rule = Callable[[Case, Ending, SleepStory], Finding | None]

# Specific before general: what needs the most agreeing evidence comes first.
RULES: tuple[Rule, ...] = (
    stale.stale_capture,
    stale.stale_capture_abort,
    unload.unload_under_reader,
    plain.gpu_fault,
    aborts.shutdown,
    machine.host_failed,
    hangs.aborting,
    hangs.held,
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
    hangs.gpu_stuck,
    hangs.loop_stuck,
    slow.http_taken,
    wear.sleep_leak,
    wear.degraded,
    plain.never_sleeps,
    slow.load_slow,
    slow.transition,
    slow.moving,
    plain.alive,
    stranded.left_behind,
)


def decide(case: Case, notes: list[str] | None = None) -> Finding:
    """The first rule that concludes, else UNDETERMINED with the list of what to collect."""
    ending, story = find_ending(case), tell(case)
    for rule in RULES:
        try:
            finding = rule(case, ending, story)
        except Exception as problem:  # noqa: BLE001 - one broken rule must not hide the others' verdict
            if notes is not None:
                notes.append(f"rule {rule.__name__} failed: {type(problem).__name__}")
            continue
        if finding is not None:
            weak = case.foreign_core and finding.confidence != "undetermined"
            return replace(finding, confidence="weak") if weak else finding
    return undetermined(case, ending, story)
