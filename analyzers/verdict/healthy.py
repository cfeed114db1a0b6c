"""Rules for servers that live and do no harm: nothing is wrong, or an idle limit never comes to its end."""

from __future__ import annotations

from analyzers.verdict.asks import LOG_ASK
from analyzers.verdict.case import Case
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Finding
from analyzers.verdict.sleep import SleepStory

HTTP_OK = 200
HEALTH_ROUTES = ("/health", "/v1/health")  # answered without touching the queue


def never_sleeps(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """D4's shape: an idle limit is set, nothing sleeps, and scrapes come more often than the limit."""
    idle = next((s.fact.sleep_idle_seconds for s in case.settings if s.fact.sleep_idle_seconds), None)
    if ending.known or not story.timeline.never_slept(idle):
        return None
    period = story.timeline.scrape_period or 0.0
    return Finding(
        "NEVER-SLEEPS",
        "configuration",
        "awake",
        "weak",
        "An idle limit is set, but scrapes keep the server awake.",
        "D4",
        reasons=(
            f"the idle limit is {idle} s and no sleep line is in the log",
            f"/metrics or /slots is called every {period:.1f} s; each call can count as work",
        ),
        witnesses=tuple(seen.id for seen in case.settings),
        asks=(LOG_ASK,),
    )


def alive(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The last probe was answered, after everything the log tells, and nothing else is amiss."""
    if not ending.alive or not case.probes or case.probes[-1].fact.status != HTTP_OK:
        return None
    odd = any(seen.fact.expected is False for seen in case.answers)
    if odd or case.aborts or any(seen.fact.unanswered for seen in case.sockets):
        return None
    if story.phase == "asleep" and _clients_untold(case):
        return None  # a stranded request would look just so
    sure = _beyond_health(case) and not _log_goes_on(case) and not _clients_untold(case)
    slept = "; it slept and woke without harm" if story.slept else ""
    return Finding(
        "NO-FAULT",
        "unknown",
        story.phase,
        "strong" if sure else "weak",
        f"Nothing went wrong in this evidence{slept}.",
        reasons=(
            "the server answered the last probe, after everything its log tells"
            if sure
            else "a client is connected, and nothing tells whether it waits"
            if _clients_untold(case)
            else "the server answered the last probe; /health alone stays 200 when the queue is wedged",
            "no abort, fault, odd answer or unanswered request is in the evidence",
        ),
        witnesses=(case.probes[-1].id, *story.witnesses),
    )


def _clients_untold(case: Case) -> bool:
    """A client is connected of whom nothing was measured (a unix socket has no figures): it may wait."""
    return any(seen.fact.bytes_received is None for seen in case.sockets)


def _beyond_health(case: Case) -> bool:
    """A probe that looks behind the HTTP threads was answered, and no work stands still there."""
    told = [s for s in case.probes if s.fact.route not in HEALTH_ROUTES and s.fact.status == HTTP_OK]
    busy = any(seen.fact.requests_processing or seen.fact.requests_deferred for seen in case.probes)
    return bool(told) and not busy


def _log_goes_on(case: Case) -> bool:
    """The log has lines from after the last probe."""
    probe = case.probes[-1].evidence
    return any(
        line is not None and at is not None and line > at
        for line, at in (
            (case.log[-1].evidence.wall, probe.wall) if case.log else (None, None),
            (case.log[-1].evidence.mono, probe.mono) if case.log else (None, None),
        )
    )
