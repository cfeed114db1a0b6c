"""Asks the servers whose turn it is, in a few threads; the loop only hands out turns and takes answers."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzers.catalogue.builds import build_number_of
from analyzers.contracts.evidence import Evidence, Incarnation
from collector.agent.probing import DEFAULT_EVERY, HEALTH, METRICS, PROPS, Allowed, Timetable, allowed
from collector.discovery.model import Found
from collector.gather.network import within
from collector.sources.target import Target

if TYPE_CHECKING:
    from collector.sources.probes import Probe

# One round of a dead server holds a thread for two time-outs: eight threads ask a hundred servers of which
# a quarter never answers within the default interval of 10 s.
THREADS = 8

TIMEOUT = 2.0  # seconds for one question; /props answers in milliseconds or is blocked


def asks() -> dict[str, Callable[..., Probe]]:
    """The real questions. The HTTP library takes 12 MB: only an agent that asks has it."""
    from collector.sources.probes import probe_health, probe_metrics, probe_props

    return {HEALTH: probe_health, PROPS: probe_props, METRICS: probe_metrics}


@dataclass(frozen=True)
class Round:
    """One server's answers, /health's first. ``problem``: why it could not be asked at all."""

    incarnation: Incarnation
    probes: tuple[Probe, ...] = ()
    problem: str | None = None

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(probe.evidence for probe in self.probes)


@dataclass(frozen=True)
class _Known:
    found: Found
    target: Target
    may: Allowed


@dataclass
class Prober:
    """``want`` and ``gone`` as servers come and go; ``tick`` every second, ``answers`` whenever.

    The key stands in ``target`` alone, from the operator's file. ``ask`` and ``inside`` are for tests.
    """

    every: float = DEFAULT_EVERY
    timeout: float = TIMEOUT
    threads: int = THREADS
    ask: dict[str, Callable[..., Probe]] = field(default_factory=dict)
    inside: Callable[[int, Callable[[], Round]], Round] = within
    mono: Callable[[], float] = time.monotonic
    spread: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        self._table = Timetable(every=self.every, spread=self.spread)
        self._known: dict[int, _Known] = {}
        self._work: queue.Queue[_Known | None] = queue.Queue()
        self._done: queue.SimpleQueue[Round] = queue.SimpleQueue()
        self._pool: list[threading.Thread] = []
        self._flying = 0

    def want(self, found: Found, target: Target, *, metrics: bool = False) -> Allowed:
        """Ask this server from now on, and what that means for it."""
        self.ask = self.ask or asks()
        may = allowed(build_number_of(found.build), metrics=metrics)
        known = self._known.get(found.pid)
        if known is None or known.found.incarnation != found.incarnation:
            self._table.born(found.pid, self.mono())
        self._known[found.pid] = _Known(found, target, may)
        return may

    def gone(self, pid: int) -> None:
        """Ask it no more; an answer under way is dropped."""
        self._known.pop(pid, None)
        self._table.gone(pid)

    def hurry(self, pid: int) -> None:
        """Ask before its turn."""
        self._table.hurry(pid, self.mono())

    def tick(self) -> int:
        """Hand out the turns that are due; how many."""
        due = self._table.due(self.mono(), self.threads - self._flying)
        for pid in due:
            self._flying += 1
            self._work.put(self._known[pid])
        self._grow()
        return len(due)

    def answers(self) -> list[Round]:
        """What came back since the last call; never blocks."""
        found = []
        with suppress(queue.Empty):
            while True:
                done = self._done.get_nowait()
                self._flying -= 1
                if self._is_current(done):
                    pid = done.incarnation.pid or 0
                    told = [probe.outcome for probe in done.probes] or ["garbage"]
                    self._table.answered(pid, told, self.mono())
                    found.append(done)
        return found

    def failures(self, pid: int) -> int:
        """Bad rounds in a row of one server, for the agent's own health."""
        return self._table.failures(pid)

    def close(self) -> None:
        """End the threads; one in the middle of a call ends with it."""
        for _ in self._pool:
            self._work.put(None)
        for thread in self._pool:
            thread.join(timeout=3 * self.timeout)

    def _is_current(self, done: Round) -> bool:
        known = self._known.get(done.incarnation.pid or 0)
        return known is not None and known.found.incarnation == done.incarnation

    def _grow(self) -> None:
        while len(self._pool) < min(self._flying, self.threads):
            thread = threading.Thread(target=self._run, name="probe", daemon=True)
            thread.start()
            self._pool.append(thread)

    def _run(self) -> None:
        while (known := self._work.get()) is not None:
            self._done.put(self._round(known))

    def _round(self, known: _Known) -> Round:
        who = known.found.incarnation
        try:
            if any(one.netns is not None for one in known.found.listening):
                return self.inside(known.found.pid, lambda: self._asked(known))
            return self._asked(known)
        except Exception as problem:  # noqa: BLE001  one server must not end the thread that asks the others
            return Round(who, (), f"could not be asked: {type(problem).__name__}")

    def _asked(self, known: _Known) -> Round:
        who, probes = known.found.incarnation, []
        for route in known.may.routes:
            probes.append(self.ask[route](known.target, timeout=self.timeout, incarnation=who))
            if route == HEALTH and probes[0].outcome != "answered":
                break  # whoever does not answer this answers nothing
        return Round(who, tuple(probes))
