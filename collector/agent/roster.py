"""The servers that live and those that died lately: whose a fact is, by what kernel and manager say."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.facts import ExitFact, KernelFact, fact_of
from collector.agent.deaths.signs import sign_of
from collector.discovery.model import Ended, Found
from collector.sources.procfs import GoneError, Process

# A manager's and a shipper's last words on a process come seconds after its end.
REMEMBERED_SECONDS = 900.0
MAX_REMEMBERED = 400
# The kernel prints its line before the process is gone, and the journal hands it on within a second.
FAULT_TO_END_SECONDS = 5.0
SAID_AFTER_SECONDS = 1.5
_COMM = 15  # bytes that the kernel keeps of a name


@dataclass(frozen=True)
class Gone:
    """A server that ended, and when (CLOCK_MONOTONIC)."""

    found: Found
    mono: float
    signal: int | None


class Roster:
    """``owner_of_thread`` tells the PID of a living thread id; tests put their own in."""

    def __init__(
        self,
        *,
        mono: Callable[[], float] = time.monotonic,
        owner_of_thread: Callable[[int], int | None] | None = None,
    ) -> None:
        self._mono = mono
        self._owner = owner_of_thread or thread_owner
        self._living: dict[int, Found] = {}
        self._gone: OrderedDict[int, Gone] = OrderedDict()  # by PID: a number used twice keeps its last life

    @property
    def living(self) -> list[Found]:
        """Servers that run, the lowest PID first."""
        return [self._living[pid] for pid in sorted(self._living)]

    def born(self, found: Found) -> None:
        """A server came, or is told anew."""
        self._living[found.pid] = found

    def ended(self, ended: Ended) -> None:
        """A server went."""
        pid = ended.found.pid
        known = self._living.get(pid)
        if known is not None and known.incarnation.same_as(ended.found.incarnation):
            del self._living[pid]
        self._gone[pid] = Gone(ended.found, ended.mono, ended.signal)
        self._gone.move_to_end(pid)
        self._forget()

    def by_pid(self, pid: int) -> Found | None:
        """The server that this PID is, or was lately."""
        gone = self._gone.get(pid)
        return self._living.get(pid) or (gone.found if gone is not None else None)

    def by_inner_pid(self, pid: int, unit: str | None) -> Found | None:
        """The server that has this number in a PID namespace of its own, None where two have it."""
        known = [*self._living.values(), *(gone.found for gone in self._gone.values())]
        found = [each for each in known if each.place.inner_pid == pid and each.place.unit == unit]
        return found[0] if len(found) == 1 else None

    @property
    def units(self) -> frozenset[str]:
        """Services in which a server lives or died lately."""
        told = [*self._living.values(), *(gone.found for gone in self._gone.values())]
        names = (found.place.unit for found in told if found.place.unit is not None)
        return frozenset(name for name in names if name.endswith(".service") and not name.startswith("user@"))

    def children_of(self, router: Found) -> list[Found]:
        """The living children of a router."""
        return [
            each
            for each in self.living
            if each.parent is not None and each.parent.same_as(router.incarnation)
        ]

    def of(self, evidence: Evidence) -> Found | None:
        """Whose fact it is; None for nobody's here, and where it could be two servers'."""
        kernel = fact_of(evidence, KernelFact)
        if kernel is not None:
            return self._of_kernel(evidence, kernel)
        if evidence.incarnation.pid is not None:
            return self._of_life(evidence.incarnation)
        told = fact_of(evidence, ExitFact)
        unit = evidence.data.get("unit") if told is None else told.unit
        return self._of_home(str(unit), evidence) if unit else None

    def _of_life(self, who: Incarnation) -> Found | None:
        found = self._living.get(who.pid or 0)
        if found is not None and who.same_as(found.incarnation):
            return found
        gone = self._gone.get(who.pid or 0)
        return gone.found if gone is not None and who.same_as(gone.found.incarnation) else None

    def _of_home(self, home: str, evidence: Evidence) -> Found | None:
        """The main server of a unit or container at the time of the fact: a child's end is told of itself."""
        now = self._mono() if evidence.mono is None else evidence.mono
        dead = [gone for gone in self._gone.values() if _lives_in(gone.found, home)]
        living = [found for found in self._living.values() if _lives_in(found, home)]
        run = evidence.data.get("invocation")
        if run and any(found.place.invocation for found in (*living, *(gone.found for gone in dead))):
            dead = [gone for gone in dead if gone.found.place.invocation == run]
            living = [found for found in living if found.place.invocation == run]
        sign = sign_of(evidence)
        if sign is not None and (sign.over or sign.fatal):
            # Words on an end are about the one that ended last, if they were said by the time that its end
            # was seen; later ones are about its successor.
            fresh = [gone for gone in dead if -FAULT_TO_END_SECONDS <= now - gone.mono <= SAID_AFTER_SECONDS]
            if fresh:
                return max(fresh, key=lambda gone: gone.mono).found
        if len(living) == 1:
            return living[0]
        return max(dead, key=lambda gone: gone.mono).found if dead and not living else None

    def _of_kernel(self, evidence: Evidence, fact: KernelFact) -> Found | None:
        if fact.tid is None:
            return None
        for pid in (fact.tid, self._owner(fact.tid)):
            found = self._living.get(pid) if pid is not None else None
            if found is not None:
                return found
        return self._just_ended(evidence, fact)

    def _just_ended(self, evidence: Evidence, fact: KernelFact) -> Found | None:
        """The thread is gone: the one server that ended just then, by the signal that the line means."""
        sign = sign_of(evidence)
        if sign is None:
            return None
        now = self._mono() if evidence.mono is None else evidence.mono
        near = [gone for gone in self._gone.values() if abs(now - gone.mono) <= FAULT_TO_END_SECONDS]
        own = [gone.found for gone in near if gone.found.pid == fact.tid]
        fits = [gone.found for gone in near if gone.signal == sign.signal and _named(gone.found, fact.name)]
        return own[0] if own else fits[0] if len(fits) == 1 else None

    def _forget(self) -> None:
        horizon = self._mono() - REMEMBERED_SECONDS
        old = [pid for pid, gone in self._gone.items() if gone.mono < horizon]
        for pid in [*old, *list(self._gone)[: max(0, len(self._gone) - len(old) - MAX_REMEMBERED)]]:
            self._gone.pop(pid, None)


def _lives_in(found: Found, home: str) -> bool:
    """True for the unit's or container's own process; a router's children are told of by their own ends."""
    names = (found.place.unit, found.place.container)
    return found.role != "child" and home in names


def _named(found: Found, name: str | None) -> bool:
    """Whether a thread of this server can bear ``name``: threads keep their program's name unless renamed."""
    return name is not None and name == PurePosixPath(found.exe).name[:_COMM]


def thread_owner(tid: int) -> int | None:
    """The PID that a living thread belongs to."""
    with suppress(GoneError, PermissionError, OSError), Process(tid) as process:
        for line in process.read("status").splitlines():
            if line.startswith(b"Tgid:"):
                return _number(line.split()[1:])
    return None


def _number(words: Iterable[bytes]) -> int | None:
    word = next(iter(words), b"")
    return int(word) if word.isdigit() else None
