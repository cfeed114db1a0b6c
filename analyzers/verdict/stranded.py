"""Rule for D3: a task was queued while the loop slept, and nothing wakes it."""

from __future__ import annotations

from analyzers.contracts.facts import ProbeFact, SocketFact
from analyzers.verdict.case import Case, Seen
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.sleep import SleepStory

SAMPLE_SPAN_S = 120.0  # two looks at one stranded request lie within the search's patience
WITNESS_LIMIT = 5  # an array of prompts is one request and hundreds of tasks
SOCKET_ASK = Ask(
    "the server's client connections as the kernel sees them, taken while the request hangs",
    "a request that was received and never answered is what tells a strand from an idle client",
    "ss -tinp state established '( sport = :PORT )'",
)


def stranded(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """Asleep, with a request that was received and is not answered. The process lives."""
    if ending.known or any(not seen.forgeable for seen in case.aborts):
        return None
    asleep = _asleep_at_the_end(case)
    waiting = [seen for seen in case.sockets if seen.fact.unanswered and _not_before(seen, asleep)]
    if asleep and waiting:
        return _live(case, story, [s.id for s in asleep[-1:]] + [s.id for s in waiting])
    return _from_log(story)


def _asleep_at_the_end(case: Case) -> list[Seen[ProbeFact]]:
    """The last probes that told the state, as far back as they all say asleep."""
    told = [seen for seen in case.probes if seen.fact.is_sleeping is not None]
    awake = max((at for at, seen in enumerate(told) if not seen.fact.is_sleeping), default=-1)
    return told[awake + 1 :]


def _not_before(socket: Seen[SocketFact], asleep: list[Seen[ProbeFact]]) -> bool:
    """A connection seen before the server was known to sleep may have been served since."""
    stamps = [seen.evidence.mono for seen in asleep if seen.evidence.mono is not None]
    if socket.evidence.mono is None or not stamps:
        return True
    return socket.evidence.mono >= stamps[0] or socket.evidence.mono >= stamps[-1] - SAMPLE_SPAN_S


def _live(case: Case, story: SleepStory, witnesses: list[str]) -> Finding:
    loop = case.loop
    loop_asleep = loop is not None and loop.fact.phase == "asleep"
    waiter = next((r for r in case.readings if r.stack.live and r.waits_for_result), None)
    proven = loop_asleep and waiter is not None
    reasons = [
        "the server says it is asleep",
        "a client connection has sent a request that the server read and has not answered",
    ]
    if proven and loop is not None and waiter is not None:
        reasons.append(
            "the queue loop waits without a time-out to be woken while an HTTP thread waits for a result"
        )
        witnesses += [loop.id, waiter.id]
    released = [seen for seen in case.actions if seen.fact.action == "release-stranded"]
    if any(seen.fact.outcome == "released" for seen in released):
        reasons.append("a waking call released it: the request was answered")
    witnesses += [seen.id for seen in released] + list(story.witnesses)
    handler = waiter.handler if waiter else None
    return Finding(
        "HANG-STRANDED",
        "sleep",
        "asleep",
        "proven" if proven else "strong",
        "A request was queued just after the server had gone to sleep; nothing wakes the server for it.",
        "D3",
        handler,
        tuple(reasons),
        tuple(dict.fromkeys(witnesses)),
    )


def _from_log(story: SleepStory) -> Finding | None:
    if not story.stranded or not story.slept:
        return None
    sure = [item for item in story.stranded if not (item.early or item.lookalike)]
    if not sure:
        return None
    return Finding(
        "HANG-STRANDED",
        "sleep",
        "asleep",
        "strong",
        "A client gave up on a request that had been queued while the server slept.",
        "D3",
        None,
        (
            "a task was cancelled after the server had gone to sleep and before anything woke it",
            "a sleeping server runs no task, so this one had been waiting for a wake that did not come",
        ),
        tuple(item.evidence_id for item in sure[-WITNESS_LIMIT:]) + story.witnesses,
        (SOCKET_ASK,),
    )


PROBE_ASK = Ask(
    "the server's own word that it sleeps, asked while the request hangs",
    "a log that was copied before the listing may lack the wake; this call wakes nothing",
    "curl -s http://127.0.0.1:PORT/props | grep -o '\"is_sleeping\":[a-z]*'",
)


def left_behind(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """Signs that have an innocent twin: a scrape's own task, two clients that waited for one wake, or a
    client that has not sent all of its request.

    A last resort: whatever the server's end or its answers say is better founded.
    """
    if ending.known or not story.slept:
        return None
    if not story.stranded:
        return _from_sockets(case, story)
    early = any(item.early for item in story.stranded)
    return Finding(
        "HANG-STRANDED",
        "sleep",
        "asleep",
        "weak",
        "A request may have been left waiting while the server slept.",
        "D3",
        None,
        (
            "a task started right after a wake ahead of one with a higher number"
            if early
            else "a task was cancelled in the very moment of going to sleep",
            "two clients that waited for the same wake look alike"
            if early
            else "a /metrics scrape of that moment is cancelled by the same line",
        ),
        tuple(item.evidence_id for item in story.stranded[-WITNESS_LIMIT:]) + story.witnesses,
        (SOCKET_ASK,),
    )


def _from_sockets(case: Case, story: SleepStory) -> Finding | None:
    """The log ends asleep and a connection waits for an answer. Never more than weak: TCP_INFO counts bytes,
    not requests, and a client that stopped in the middle of its upload looks the same."""
    waiting = [seen for seen in case.sockets if seen.fact.unanswered]
    if not waiting or story.phase != "asleep" or _told_awake(case):
        return None
    return Finding(
        "HANG-STRANDED",
        "sleep",
        "asleep",
        "weak",
        "A request may wait for a server that sleeps.",
        "D3",
        None,
        (
            "the log ends with the server asleep, and a client has sent something that is not answered",
            "a whole request would have woken the server, unless it came in just before it went to sleep",
            "the kernel's figures cannot tell a whole request from an upload that stalls",
        ),
        tuple(seen.id for seen in waiting[-WITNESS_LIMIT:]) + story.witnesses,
        (PROBE_ASK,),
    )


def _told_awake(case: Case) -> bool:
    """The server itself said, at the last, that it does not sleep."""
    told = [seen.fact.is_sleeping for seen in case.probes if seen.fact.is_sleeping is not None]
    return bool(told) and not told[-1]
