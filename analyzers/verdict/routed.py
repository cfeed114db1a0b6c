"""A router's word about a child's end: status 1, whatever the child died of."""

from __future__ import annotations

from dataclasses import replace

from analyzers.contracts.facts import ExitFact
from analyzers.verdict.asks import LOG_ASK
from analyzers.verdict.case import Case, Seen
from analyzers.verdict.ending import ROUTER_SIGNAL_CODE, Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.plain import START_CAUSES, exit_error
from analyzers.verdict.sleep import SleepStory

STATUS_ONE = "the router reports every signal death of a child as status 1, a crash included"
CHILD_CORE = Ask(
    "the child's core",
    "the router's status hides the signal; the core names it, and a child's core falls where the router's "
    "would: it has the router's working folder and its limits",
    "coredumpctl list llama-server; or, before the next time: ulimit -c unlimited in the router's shell",
)
CHILD_KERNEL = Ask(
    "the kernel's line about the child",
    "a memory fault prints nothing, but the kernel notes it; the number in it is the child's thread",
    "journalctl -k --since '-1 hour' -o short-monotonic | grep -E 'segfault|general protection|oom'",
)


def child_ended(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """Nothing but the router tells of the end, and its status 1 does not decide what it was."""
    if not ending.router_only:
        return None
    told = [seen for seen in case.exits if seen.fact.by == "router"]
    if ending.requested or story.stop is not None:
        return _stopped(told, story)
    if any(not seen.forgeable for seen in case.events(*START_CAUSES)) and not story.slept:
        return exit_error(case, replace(ending, code=ROUTER_SIGNAL_CODE), story)
    return Finding(
        "UNDETERMINED",
        "unknown",
        story.phase,
        "undetermined",
        "A child of the router died, by a signal or with an error status; the router does not tell which.",
        reasons=(STATUS_ONE, *_suspicion(story)),
        witnesses=(*(seen.id for seen in told), *story.witnesses),
        asks=(CHILD_CORE, CHILD_KERNEL, *(() if story.started else (LOG_ASK,))),
    )


def _stopped(told: list[Seen[ExitFact]], story: SleepStory) -> Finding:
    """A planned stop that ended with status 1: killed after its time-out, or crashed on the way down."""
    stop = (story.stop.id,) if story.stop else ()
    return Finding(
        "NO-FAULT",
        "supervisor",
        "stopping",
        "weak",
        "The router was told to stop this child, and it ended.",
        reasons=(
            "the router said that it stops this model before the end",
            "status 1 is also what it reports for a child that it had to kill or that crashed while stopping",
        ),
        witnesses=(*(seen.id for seen in told), *stop),
        asks=(CHILD_KERNEL,),
    )


def _suspicion(story: SleepStory) -> tuple[str, ...]:
    if story.slept and (story.phase == "asleep" or story.just_woken):
        where = "asleep" if story.phase == "asleep" else "in a wake that no finished work follows"
        return (f"the child's log ends {where}: if a signal killed it, suspect sleep",)
    return ()
