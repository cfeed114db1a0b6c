"""Whether the log is this very process's: by its wake's moment, PID or port, or by the user's word alone.

Log text can be another life's or forged, so without such a tie it proves nothing about a core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import LogFact
from analyzers.verdict.case import Case, Seen

# A wake's last lines and the queue's stamp of its end lie within a ms on real servers; the rest is for
# whoever stamps the lines: journald takes 0.2 s, more on a busy host.
WAKE_STAMP_MS = 500.0
# From a process's start to its logger's: 2 ms of a native server, up to 2 s of one in a Python program.
START_MS = 2_000.0
LONGEST_LOAD_MS = 3_600_000.0  # a wake line further before the queue's stamp is not of that wake
SAME, OTHER = "same", "other"


def wake_moment(case: Case) -> str | None:
    """Whether the log's last wake is the one in the queue's memory: SAME or OTHER, None without a clock."""
    loop = case.loop
    if loop is None or loop.fact.time_last_task_ms is None:
        return None
    apart = [loop.fact.time_last_task_ms - at * 1000.0 for at in _direct(case)]
    if any(abs(one) <= WAKE_STAMP_MS for one in apart):
        return SAME
    if apart and not any(-WAKE_STAMP_MS <= one <= LONGEST_LOAD_MS for one in apart):
        return OTHER
    placed = [(loop.fact.time_last_task_ms - at * 1000.0, slack) for at, slack in _placed(case)]
    return SAME if any(-WAKE_STAMP_MS <= one <= WAKE_STAMP_MS + slack for one, slack in placed) else None


def tasks_untold(case: Case) -> bool:
    """The queue has numbered fewer tasks than the log shows, or more without a scrape to explain them.

    GET /metrics takes a number and prints no line, so more tasks tell only where it is known to be off.
    """
    count = case.loop.fact.next_task if case.loop else None
    shown = max((seen.fact.task_id for seen in case.log if seen.fact.task_id is not None), default=-1) + 1
    if count is None or count == shown:
        return False
    return count < shown or any(seen.fact.metrics is False for seen in case.settings)


def loose(case: Case) -> bool:
    """The log was only given together with the core or trace: nothing in either names the other."""
    if not case.log or wake_moment(case) == SAME:
        return False
    if case.cores:
        return not (_same_pid(case) or _same_port(case))
    crash = case.crash
    stack = next((seen for seen in case.stacks if crash is not None and seen.id == crash.id), None)
    if stack is None:
        return False
    pids = {seen.evidence.incarnation.pid for seen in case.log} - {None}
    return stack.evidence.incarnation.pid not in pids and _input(stack) != _input(case.log[-1])


def _input(seen: Seen) -> str:  # type: ignore[type-arg]
    return seen.evidence.source.partition(":")[0]


def _same_pid(case: Case) -> bool:
    pids = {seen.fact.pid for seen in case.cores} - {None}
    return any(seen.evidence.incarnation.pid in pids for seen in case.log)


def _same_port(case: Case) -> bool:
    ports = {port for seen in case.cores for port in seen.fact.ports}
    return any(port in ports for seen in case.log if not seen.forgeable for port in _ports(seen.fact))


def _ports(fact: LogFact) -> Iterator[int]:
    if fact.event == "listening" and fact.value:
        yield int(fact.value)
    if fact.port and fact.port.strip().isdecimal():
        yield int(fact.port)


def _wake(case: Case) -> list[Evidence]:
    """The lines from the last wake on; none where the log does not end in one."""
    lines = [seen for seen in case.log if not seen.forgeable]
    woke = [at for at, seen in enumerate(lines) if seen.fact.event == "exit-sleep"]
    slept = [at for at, seen in enumerate(lines) if seen.fact.event == "enter-sleep"]
    if not woke or (slept and slept[-1] > woke[-1]):
        return []
    return [seen.evidence for seen in lines[woke[-1] :]]


def _direct(case: Case) -> list[float]:
    return [item.mono for item in _wake(case) if item.mono is not None]


def _placed(case: Case) -> Iterator[tuple[float, float]]:
    """(seconds of CLOCK_MONOTONIC, slack in ms) of a wake's lines, by a clock whose distance is known."""
    told = [item for item in _every(case) if item.trust in (Trust.KERNEL, Trust.SUPERVISOR)]
    apart = [item.wall - item.mono for item in told if item.wall is not None and item.mono is not None]
    known = bool(apart) and (max(apart) - min(apart)) * 1000.0 <= WAKE_STAMP_MS
    starts = {item.incarnation.start_time for item in told} - {None}
    start = next(iter(starts)) if len(starts) == 1 else None
    for item in _wake(case):
        if known and item.wall is not None:
            yield item.wall - apart[0], 0.0
        if start is not None and item.elapsed is not None:
            yield start + item.elapsed, START_MS


def _every(case: Case) -> Iterator[Evidence]:
    for part in fields(case):
        for seen in getattr(case, part.name):
            if isinstance(seen, Seen):
                yield seen.evidence
