"""Rule for the reads of a freed model that are answered: an error or a wrong answer, and the server lives."""

from __future__ import annotations

from analyzers.contracts.facts import AnswerFact
from analyzers.verdict.asks import ANSWER_ASK
from analyzers.verdict.case import Case, Seen, ids_of
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Finding
from analyzers.verdict.sleep import SleepStory

BUSY = 503  # "Loading model" and refusals before the handler: no reader ran
COUNTING = ("input_tokens", "count_tokens")


def error_answer(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The same reads as D2, answered with an error or a wrong answer."""
    odd = [seen for seen in case.answers if _odd(seen)]
    logged = [s for s in story.failed_asleep if not s.forgeable and map_error(s.evidence.text)]
    gone = story.phase == "asleep" or story.just_woken
    if not (odd or logged) or ending.known or not story.slept or not gone:
        return None
    mapped = any(map_error(seen.fact.error) for seen in odd)
    counting = story.just_woken and any(part in (s.fact.route or "") for s in odd for part in COUNTING)
    sure = mapped and ending.alive and not story.just_woken
    return Finding(
        "ERROR-UAF-SLEEP",
        "wake" if counting else "sleep",
        story.phase,
        "strong" if sure else "weak",
        "A request read the model while sleep was freeing it and came back with an error or a wrong answer.",
        "D1" if counting else "D2",
        None,
        _reasons(mapped, bool(odd), bool(logged), story.just_woken),
        tuple(dict.fromkeys((*ids_of(odd, logged), *story.witnesses))),
        () if odd else (ANSWER_ASK,),
    )


def _odd(seen: Seen[AnswerFact]) -> bool:
    if seen.fact.status == BUSY:
        return False
    return seen.fact.expected is False or map_error(seen.fact.error)


def _reasons(mapped: bool, odd: bool, logged: bool, woken: bool) -> tuple[str, ...]:
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
    when = "the log ends in a wake" if woken else "the log ends with going to sleep"
    return (*reasons, f"{when}: that is when the model is freed")


def map_error(error: str | None) -> bool:
    """The error text of a look-up in an emptied vocabulary (libstdc++'s unordered_map::at)."""
    return error is not None and "_Map_base::at" in error
