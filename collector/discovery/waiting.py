"""Processes that are no servers yet: each is looked at again, ever more rarely.

A hosted server maps its library seconds after its program began; a worker that was forked executes nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

# A look costs some 0.2 ms where the process grew, else 10 us. The first soon, for an import of a second or
# two is found within its own length again; the last often enough for a service that loads on first use.
FIRST_SECONDS, LAST_SECONDS = 0.3, 600.0
NEVER = math.inf


@dataclass
class Other:
    """``looks`` so far; ``size`` of its address space at the last one: what did not grow mapped nothing."""

    due: float
    looks: int = 0
    size: int = -1
    stack: int = -1
    named: bool = False  # its program's name says server
    searched: bool = False  # its program's file as well


class Waiting:
    """The others by PID, in order of their next look."""

    def __init__(self) -> None:
        self._others: dict[int, Other] = {}
        self._order: list[tuple[float, int]] = []

    def __contains__(self, pid: int) -> bool:
        return pid in self._others

    def __len__(self) -> int:
        return len(self._others)

    def add(self, pid: int, due: float, looks: int = 0, named: bool = False) -> None:
        """Wait for ``due`` (seconds of the monotonic clock, NEVER for a kernel thread)."""
        self._others[pid] = Other(due, looks, named=named)
        if due < NEVER:
            heapq.heappush(self._order, (due, pid))

    def again(self, pid: int, now: float) -> None:
        """Once more, twice as late as the last time."""
        other = self._others[pid]
        other.looks += 1
        other.due = now + min(FIRST_SECONDS * 2 ** min(other.looks, 20), LAST_SECONDS)
        heapq.heappush(self._order, (other.due, pid))

    def begin(self, pid: int, now: float) -> None:
        """A program that has just begun: looked at when it has lived a little."""
        self.add(pid, now + FIRST_SECONDS)

    def soon(self, pid: int, now: float) -> None:
        """Its turn to be searched has not come: no look was spent."""
        other = self._others[pid]
        other.due = now + FIRST_SECONDS
        heapq.heappush(self._order, (other.due, pid))

    def drop(self, pid: int) -> bool:
        """Forget it; True when it was there."""
        return self._others.pop(pid, None) is not None

    def due(self, now: float) -> Iterator[tuple[int, Other]]:
        """Those whose time has come; taken out of the order, not out of the table."""
        while self._order and self._order[0][0] <= now:
            at, pid = heapq.heappop(self._order)
            other = self._others.get(pid)
            if other is not None and other.due == at:
                yield pid, other

    def put_back(self, pid: int, other: Other) -> None:
        """Not looked at after all."""
        heapq.heappush(self._order, (other.due, pid))

    def next_due(self) -> float:
        """When the next one is due; NEVER for none."""
        return self._order[0][0] if self._order else NEVER
