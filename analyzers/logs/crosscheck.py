"""Which lines of one life contradict the server's own ways. Text that a client can print becomes
client-controllable here; what cannot be told apart stays server-printed.

The rules read from the queue's source: ``que start_loop`` prints its line and at once runs the callback
that prints the ``srv handle_sleep`` twin; an idle limit is at least one whole second after the last task;
the logger's stamps rise; a process that aborted prints nothing of the kind for long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import AbortFact, LogFact
from analyzers.logs.keep import Kept
from analyzers.logs.recognise import Found
from analyzers.logs.telling import FATAL, SLEEP, TASK

MIN_IDLE = 0.9  # seconds; the smallest idle limit the server accepts is 1, log stamps lag a little
STAMP_SLACK = 1.0  # seconds; threads stamp before they queue a line, so neighbours can swap
JSON_ERAS = frozenset({"F1", "F6"})
AFTER_ABORT = 120.0  # seconds; other threads still log while the dying one prints a backtrace

Row = tuple[Kept, Found]


def trusts(rows: Sequence[Row]) -> list[Trust]:
    """The trust of each row of one life, in line order."""
    doubted = (
        _unstamped(rows)
        | _other_form(rows)
        | _out_of_order(rows)
        | _lonely_sleep(rows)
        | _busy_sleep(rows)
        | _outlived(rows)
    )
    return [Trust.CLIENT if at in doubted else found.trust for at, (_, found) in enumerate(rows)]


def _unstamped(rows: Sequence[Row]) -> set[int]:
    """Lines without a stamp in a life whose lines carry stamps."""
    logs = [(at, found) for at, (_, found) in enumerate(rows) if isinstance(found.fact, LogFact)]
    bare = {at for at, found in logs if found.elapsed is None}
    return bare if len(bare) * 2 < len(logs) else set()


def _other_form(rows: Sequence[Row]) -> set[int]:
    """Sleep lines in JSON among lines of text, or the other way round: a server writes one form."""
    forms = {
        at: found.fact.era in JSON_ERAS
        for at, (_, found) in enumerate(rows)
        if isinstance(found.fact, LogFact)
    }
    usual = sum(forms.values()) * 2 > len(forms)
    return {at for at, form in forms.items() if form != usual and rows[at][0].group == SLEEP}


def _out_of_order(rows: Sequence[Row]) -> set[int]:
    """Lines outside the longest rising run of stamps: removing them puts the clock right."""
    stamped = [(at, found.elapsed) for at, (_, found) in enumerate(rows) if found.elapsed is not None]
    chain = _longest_rising([elapsed for _, elapsed in stamped])
    doubted = set()
    for place, (at, elapsed) in enumerate(stamped):
        if place not in chain and _off(place, elapsed, chain, stamped):
            doubted.add(at)
    return doubted


def _off(place: int, elapsed: float, chain: Sequence[int], stamped: Sequence[tuple[int, float]]) -> bool:
    after = bisect_right(chain, place)
    low = stamped[chain[after - 1]][1] if after else elapsed
    high = stamped[chain[after]][1] if after < len(chain) else elapsed
    return elapsed < low - STAMP_SLACK or elapsed > high + STAMP_SLACK


def _longest_rising(values: Sequence[float]) -> list[int]:
    tails: list[float] = []
    ends: list[int] = []
    before: list[int] = []
    for at, value in enumerate(values):
        place = bisect_right(tails, value)
        before.append(ends[place - 1] if place else -1)
        tails[place : place + 1] = [value]
        ends[place : place + 1] = [at]
    chain = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(at)
        at = before[at]
    return chain[::-1]


def _lonely_sleep(rows: Sequence[Row]) -> set[int]:
    """Sleep lines whose twin is missing although the lines around them were kept."""
    sleeps = [(at, kept, found) for at, (kept, found) in enumerate(rows) if kept.group == SLEEP]
    doubted = set()
    for here, (at, kept, found) in enumerate(sleeps):
        if kept.event not in ("enter-sleep", "exit-sleep"):
            continue
        step = 1 if "start_loop" in found.shown else -1
        if _twin_missing(sleeps, here, step) and not _tail_may_be_lost(
            rows, at, step, here + 1 == len(sleeps)
        ):
            doubted.add(at)
    return doubted


def _twin_missing(sleeps: Sequence[tuple[int, Kept, Found]], here: int, step: int) -> bool:
    kept = sleeps[here][1]
    there = here + step
    if not 0 <= there < len(sleeps):
        return step > 0 or kept.place > 0
    twin, other = sleeps[there][1], sleeps[there][2]
    if twin.place != kept.place + step:
        return False
    return twin.event != kept.event or ("start_loop" in other.shown) == (step > 0)


def _tail_may_be_lost(rows: Sequence[Row], at: int, step: int, last: bool) -> bool:
    """A crash loses the last queued lines: an ``entering`` at the very end may stand alone."""
    return step > 0 and last and not any(kept.group == TASK for kept, _ in rows[at + 1 :])


def _busy_sleep(rows: Sequence[Row]) -> set[int]:
    """``entering`` lines less than the smallest idle limit after a task started or ended.

    One that stands after a task's line and is stamped before it is no better, unless the stamps began anew.
    """
    doubted, busy = set(), None
    for at, (kept, found) in enumerate(rows):
        if found.elapsed is None:
            continue
        if kept.event in ("task-launched", "task-done"):
            busy = found.elapsed
        elif (
            kept.event == "enter-sleep"
            and busy is not None
            and -STAMP_SLACK < found.elapsed - busy < MIN_IDLE
        ):
            doubted.add(at)
    return doubted


def _outlived(rows: Sequence[Row]) -> set[int]:
    """Abort texts after which the same process went on for long."""
    stamps = [found.elapsed for _, found in rows if found.elapsed is not None]
    last = max(stamps, default=0.0)
    doubted, now = set(), 0.0
    for at, (kept, found) in enumerate(rows):
        now = found.elapsed if found.elapsed is not None else now
        deadly = isinstance(found.fact, AbortFact) and found.fact.shape not in ("cuda", "gpu-oom", "alloc")
        if kept.group == FATAL and deadly and last - now > AFTER_ABORT:
            doubted.add(at)
    return doubted
