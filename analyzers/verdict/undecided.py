"""What is said, and asked for, when no rule concludes."""

from __future__ import annotations

from analyzers.verdict.asks import CORE_ASK, LOG_ASK, LOOK_ASK, SNAPSHOT_ASK
from analyzers.verdict.case import Case
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.hangs import STILL_SECONDS
from analyzers.verdict.plain import EXIT_ASK
from analyzers.verdict.sleep import SleepStory
from analyzers.verdict.watch import Watch


def undetermined(case: Case, ending: Ending, story: SleepStory) -> Finding:
    """Say what would decide. A living process is not asked for its end."""
    watched = ending.alive and not ending.known
    reasons = [_LIVING if watched else _SILENT]
    if story.slept and (story.phase == "asleep" or story.just_woken):
        reasons.append(
            f"the log ends {'asleep' if story.phase == 'asleep' else 'in a wake'}: "
            "if the process died there, suspect sleep"
        )
    return Finding(
        "UNDETERMINED",
        "unknown",
        story.phase,
        "undetermined",
        "The evidence does not decide what happened.",
        reasons=tuple(reasons),
        witnesses=(*ending.witnesses, *story.witnesses),
        asks=tuple(_living_asks(case) if watched else _dead_asks(case, ending)),
    )


_SILENT = "nothing in this evidence shows a fault, and nothing rules one out: a memory fault prints no line"
_LIVING = (
    "the process lives; whether it hangs is decided by what moves between two looks, and that is missing"
)


def _dead_asks(case: Case, ending: Ending) -> list[Ask]:
    asks = [] if ending.known else [EXIT_ASK]
    asks += [] if case.crash else [CORE_ASK]
    return asks + ([] if case.log else [LOG_ASK])


def _living_asks(case: Case) -> list[Ask]:
    watch = Watch(case)
    asks = [] if watch.span >= STILL_SECONDS else [LOOK_ASK]
    asks += [] if watch.loop_span >= STILL_SECONDS else [SNAPSHOT_ASK]
    return asks + ([] if case.log else [LOG_ASK])
