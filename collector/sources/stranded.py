"""Finds a stranded request: posted while the loop slept, so that nothing will ever wake it (D3).

The server's own figures cannot show it. It is asleep, and a client has asked something that the server
read, that nobody moved since, and that is no upload still under way. Nothing here wakes a model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.report import Gap
from analyzers.triage.readers.sockets import QUIET_MS
from collector.sources.probes import Probe, probe_props
from collector.sources.procfs import read_incarnation
from collector.sources.sockdiag import TcpSample, read_connections
from collector.sources.sockets import same_request, to_socket_evidence, unanswered
from collector.sources.target import Target
from collector.sources.waits import owned_sockets, sockets_being_read

# A request that arrives at a sleeping server wakes it within milliseconds, and a reload blocks /props: a
# second between the looks is far beyond both, and small beside any client's patience.
MIN_BETWEEN_SECONDS = 1.0
DEFAULT_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Senses:
    """What the search looks with; tests put their own in. Times in seconds, ``mono`` CLOCK_MONOTONIC."""

    connections: Callable[[int], list[TcpSample]] = read_connections
    props: Callable[[Target], Probe] = probe_props
    owned: Callable[[int], frozenset[int] | None] = owned_sockets
    being_read: Callable[[int], frozenset[int] | None] = sockets_being_read
    incarnation: Callable[[int], Incarnation | None] = read_incarnation
    sleep: Callable[[float], None] = time.sleep
    mono: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


@dataclass(frozen=True)
class Stranded:
    """Requests that a sleeping server holds and will not answer by itself.

    ``connections`` are the second look's samples, ``quiet_seconds`` how long the oldest has waited. ``gaps``
    name what could not be checked: without a view of the threads a stalled upload looks the same.
    """

    target: Target
    connections: tuple[TcpSample, ...]
    quiet_seconds: float
    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class _Seen:
    tcp: TcpSample
    evidence: Evidence


def find_stranded(
    target: Target,
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS,
    *,
    asleep_by_log: Callable[[], bool | None] | None = None,
    senses: Senses | None = None,
) -> Stranded | None:
    """Look twice, ``patience_seconds`` after the client's last word at the earliest; None when all is well.

    Returns at once when nobody waits or the server is awake, loading or unloading; else blocks for up to
    the patience (at least a second). ``asleep_by_log`` stands in where /props does not say it (an API key
    that is not known, an old build). Raises UserError when the kernel gives no socket figures.
    """
    look = _Look(target, senses or Senses(), asleep_by_log)
    first = look.waiting(quiet_ms=0)
    if not first or not look.asleep():
        return None
    quiet = _quiet_seconds(first)
    look.senses.sleep(max(MIN_BETWEEN_SECONDS, patience_seconds - quiet))
    second = look.waiting(quiet_ms=max(QUIET_MS, int(patience_seconds * 1000)))
    held = look.held([seen for seen in second if _among(seen, first)])
    if not held or not look.asleep():
        return None
    return look.stranded([seen for seen in first if _among(seen, held)], held)


class _Look:
    """One search under way: the senses, and what was noted so far."""

    def __init__(
        self, target: Target, senses: Senses, asleep_by_log: Callable[[], bool | None] | None
    ) -> None:
        self.target = target
        self.senses = senses
        self._asleep_by_log = asleep_by_log
        # Whoever the PID was at the start: a restart in between changes socket cookies and fails the match.
        self._incarnation = senses.incarnation(target.pid) if target.pid is not None else None
        self._probes: list[Evidence] = []
        self._gaps: list[Gap] = []

    def waiting(self, *, quiet_ms: int) -> list[_Seen]:
        """Connections of this server whose client waits; another process on that port number left out."""
        wall, mono = self.senses.wall(), self.senses.mono()
        everyone = self.senses.connections(self.target.port)
        found = [tcp for tcp in everyone if unanswered(tcp, quiet_ms=quiet_ms)]
        if found and self.target.pid is not None:
            mine = self.senses.owned(self.target.pid)
            found = [tcp for tcp in found if mine is None or tcp.inode in mine]
        return [self._seen(tcp, wall, mono, quiet_ms) for tcp in found]

    def asleep(self) -> bool:
        """True only on a positive word: /props says so, or says nothing and the log does."""
        probe = self.senses.props(self.target)
        named = self._incarnation or probe.evidence.incarnation
        self._probes.append(probe.evidence.model_copy(update={"incarnation": named}))
        if probe.fact.is_sleeping is not None or probe.blocked:
            return probe.fact.is_sleeping is True
        return self._asleep_by_log is not None and self._asleep_by_log() is True

    def held(self, waiting: list[_Seen]) -> list[_Seen]:
        """Those whose request the server has read to its end, as far as its threads can be seen."""
        if not waiting:
            return []
        read = self.senses.being_read(self.target.pid) if self.target.pid is not None else None
        if read is None:
            self._gaps.append(_threads_unseen(self.target))
            return waiting
        return [seen for seen in waiting if seen.tcp.inode not in read]

    def stranded(self, before: list[_Seen], after: list[_Seen]) -> Stranded:
        """Both looks as evidence, in the order in which they were taken."""
        first, last = self._probes[0], self._probes[-1]
        facts = [*(seen.evidence for seen in before), first, *(seen.evidence for seen in after), last]
        return Stranded(
            target=self.target,
            connections=tuple(seen.tcp for seen in after),
            quiet_seconds=_quiet_seconds(after),
            evidence=tuple(facts),
            gaps=tuple(self._gaps),
        )

    def _seen(self, tcp: TcpSample, wall: float, mono: float, quiet_ms: int) -> _Seen:
        return _Seen(
            tcp,
            to_socket_evidence(
                tcp, self.target, wall=wall, mono=mono, incarnation=self._incarnation, quiet_ms=quiet_ms
            ),
        )


def _quiet_seconds(seen: Iterable[_Seen]) -> float:
    return max(one.tcp.last_data_recv_ms or 0 for one in seen) / 1000


def _among(seen: _Seen, others: Iterable[_Seen]) -> bool:
    return any(same_request(seen.tcp, other.tcp) for other in others)


def _threads_unseen(target: Target) -> Gap:
    known = target.pid is not None
    return Gap(
        what="whether the server still waits for the rest of the request (a stalled upload looks the same)",
        why="its threads may not be looked into" if known else "the server's PID is not known",
        command=f"sudo cat /proc/{target.pid}/task/*/syscall" if known else None,
    )
