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
    if watched and (pid := _locked(case)) is not None:
        return _needs_its_key(pid, story, ending)
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


def _locked(case: Case) -> int | None:
    """The PID of a living server (0: not known) that answered what is open to all, and wants its API key for
    the rest."""
    refused = [seen for seen in case.probes if seen.fact.status in UNAUTHORIZED]
    answered = [seen for seen in case.probes if seen.fact.status == OK]
    silent = [seen for seen in case.probes if seen.fact.status is None]
    if not refused or not answered or silent:
        return None
    return refused[-1].evidence.incarnation.pid or 0


def _needs_its_key(pid: int, story: SleepStory, ending: Ending) -> Finding:
    who = str(pid or "PID")
    return Finding(
        "UNDETERMINED",
        "unknown",
        story.phase,
        "undetermined",
        "The server answers, but says whether it sleeps and works only to who has its API key.",
        reasons=("its probes were refused for want of a key; /health, which needs none, was answered",),
        witnesses=(*ending.witnesses, *story.witnesses),
        steps=(
            (
                "Look again with the key: put it into a file that only you can read and name that file "
                "(its first line is sent to this server's own socket and stands in no bundle).",
                f"llama-blackbox collect --live --pid {who} --api-key-file FILE",
            ),
        ),
    )


UNAUTHORIZED, OK = (401, 403), 200
_SILENT = "nothing that is shown to be this process's tells of a fault, and nothing rules one out"
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
