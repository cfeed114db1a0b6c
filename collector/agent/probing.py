"""Which questions may be asked of which server, and when: policy only, no network."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

HEALTH, PROPS, METRICS = "/health", "/props", "/metrics"
DEFAULT_EVERY = 10.0
# Spread over a tenth, so that a hundred servers started together are not asked together for ever.
JITTER = 0.1
# A server that answers garbage, hugely, slowly or never is asked at most this seldom, in seconds.
MAX_BACKOFF = 600.0
BAD = frozenset({"garbage", "too-big", "redirect", "unexpected", "refused", "timeout"})

METRICS_COST = (
    "GET /metrics wakes the server's queue loop: a server whose idle limit has passed goes to sleep within "
    "milliseconds of the call, sleep can come up to a second later than it would, and every call restarts "
    "the window of the two rate gauges, which corrupts the first scraper's rates"
)
UNKNOWN_BUILD = "its build is not known, and only /health is known to leave every build alone"
METRICS_WAKE = "GET /metrics wakes or keeps awake a server of this build, or nobody measured it: not asked"


@dataclass(frozen=True)
class Allowed:
    """Routes that may be asked, in order, and why others are not. ``cost`` names what /metrics does."""

    routes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    cost: str | None = None


def allowed(build: int | None, *, metrics: bool = False) -> Allowed:
    """What may be asked of a server of ``build`` (None: unknown). ``metrics``: the operator opted in.

    /slots and whatever wakes or keeps awake is never among them (the catalogue's measured table).
    """
    from analyzers.catalogue.loader import known_defects

    known = known_defects()
    safe = known.safe_probes(build)
    props = f"GET {PROPS}" in safe
    routes, notes = [HEALTH], []
    if props:
        routes.append(PROPS)
    else:
        notes.append(UNKNOWN_BUILD)
    told = known.probe_safety(build, f"GET {METRICS}") if metrics else None
    if told is not None and not told.wakes and not told.resets:
        routes.append(METRICS)
        return Allowed(tuple(routes), tuple(notes), METRICS_COST)
    if metrics:
        notes.append(METRICS_WAKE)
    return Allowed(tuple(routes), tuple(notes))


@dataclass
class Schedule:
    """When one server is asked next (CLOCK_MONOTONIC): an interval with jitter, doubled while it fails."""

    every: float
    due: float
    failures: int = 0
    flying: bool = False

    def answered(self, outcomes: Iterable[str], mono: float, spread: Callable[[], float]) -> None:
        """One round came back. A /props that blocks with /health fine is a transition, no misbehaviour."""
        told = list(outcomes)
        bad = (bool(told) and told[0] in BAD) or any(word in BAD - {"timeout"} for word in told)
        self.failures = self.failures + 1 if bad else 0
        self.flying = False
        wait = min(max(MAX_BACKOFF, self.every), self.every * 2.0 ** min(self.failures, 16))
        self.due = mono + wait * (1 + JITTER * (2 * spread() - 1))


class Timetable:
    """Whom to ask now. One round per server in flight; ``hurry`` asks once, before its turn."""

    def __init__(self, *, every: float = DEFAULT_EVERY, spread: Callable[[], float] = random.random) -> None:
        self._every = every
        self._spread = spread
        self._all: dict[int, Schedule] = {}

    def born(self, pid: int, mono: float) -> None:
        """A server came: its first turn falls within a tenth of the interval."""
        self._all[pid] = Schedule(self._every, mono + self._every * JITTER * self._spread())

    def gone(self, pid: int) -> None:
        """A server went."""
        self._all.pop(pid, None)

    def hurry(self, pid: int, mono: float) -> None:
        """Ask soon, unless it misbehaves or is being asked."""
        known = self._all.get(pid)
        if known is not None and known.failures == 0:
            known.due = min(known.due, mono)

    def due(self, mono: float, free: int) -> list[int]:
        """PIDs to ask now, the longest due first, at most ``free``; they count as being asked."""
        ripe = sorted(
            (each.due, pid) for pid, each in self._all.items() if not each.flying and each.due <= mono
        )
        chosen = [pid for _, pid in ripe[: max(0, free)]]
        for pid in chosen:
            self._all[pid].flying = True
        return chosen

    def answered(self, pid: int, outcomes: Iterable[str], mono: float) -> None:
        """One server's round came back; ``outcomes`` as in Probe, /health's first."""
        known = self._all.get(pid)
        if known is not None:
            known.answered(outcomes, mono, self._spread)

    def failures(self, pid: int) -> int:
        """Bad rounds in a row."""
        known = self._all.get(pid)
        return known.failures if known is not None else 0
