"""The states of all servers, once a second: a pulse each, one question to the kernel per namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.errors import UserError
from collector.agent.states.clients import Clients
from collector.agent.states.machine import ServerState
from collector.agent.states.model import Crowd, Knobs, Now, Pulse, StateView, Transition
from collector.agent.states.pulses import LoopWait, PulseReader, main_wait
from collector.discovery.model import Ended, Found
from collector.gather.network import within
from collector.sources.sockdiag import TcpSample
from collector.sources.sockdump import ConnectionDump
from collector.sources.sockets import to_socket_evidence
from collector.sources.target import Target
from collector.sources.waits import owned_sockets, sockets_being_read

# A client has waited this much less than the patience when /props is asked: its answer, up to the probe's
# time-out later, is there when the patience ends.
ASK_AHEAD_SECONDS = 2.5
ASK_AGAIN_SECONDS = 5.0
# Offset of CLOCK_BOOTTIME from CLOCK_MONOTONIC grows only while the machine is suspended.
SUSPENDED_SECONDS = 0.5
UNIX_SOCKET = (
    "a unix socket has no figures of its bytes: a stranded request cannot be told from an idle client"
)
Samples = dict[int, list[TcpSample]]


@dataclass(frozen=True)
class Senses:
    """What the watch looks with; tests put their own in. ``dump``: namespace, a PID in it, ports."""

    dump: Callable[[int | None, int, frozenset[int]], Samples]
    pulse: Callable[[Found], Callable[[float], Pulse | None]]
    owned: Callable[[int], frozenset[int] | None] = owned_sockets
    being_read: Callable[[int], frozenset[int] | None] = sockets_being_read
    main_wait: Callable[[int], str | None] = main_wait
    mono: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    boot: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)


class Dumps:
    """A ``dump`` for Senses: one netlink socket for each network namespace, kept open."""

    def __init__(self) -> None:
        self._open: dict[int | None, ConnectionDump] = {}

    def __call__(self, netns: int | None, pid: int, ports: frozenset[int]) -> Samples:
        """Raises UserError, or OSError when the namespace may not be entered."""
        dump = self._open.get(netns)
        if dump is not None:
            return dump.read(ports)
        dump = ConnectionDump()
        found = within(pid, lambda: dump.read(ports)) if netns is not None else dump.read(ports)
        self._open[netns] = dump
        return found

    def keep(self, namespaces: Iterable[int | None]) -> None:
        """Close the sockets of namespaces that no server lives in: an open one keeps a namespace alive."""
        wanted = set(namespaces)
        for netns in [each for each in self._open if each not in wanted]:
            self._open.pop(netns).close()


def real_senses() -> Senses:
    """The kernel's."""

    def pulse(found: Found) -> Callable[[float], Pulse | None]:
        return PulseReader(found.pid, found.incarnation.start_time).read

    return Senses(dump=Dumps(), pulse=pulse)


@dataclass
class _Watched:
    found: Found
    state: ServerState
    clients: Clients
    pulse: Callable[[float], Pulse | None]
    loop: LoopWait = field(default_factory=LoopWait)
    asked: float = float("-inf")
    facts: tuple[Evidence, ...] = ()
    stuck: tuple[TcpSample, ...] = ()


class StateWatch:
    """``born``, ``ended`` and ``note`` as things happen, ``tick`` once a second; nothing here blocks on a
    server. ``problems`` are lines for the agent's own health."""

    def __init__(self, *, knobs: Knobs | None = None, senses: Senses | None = None) -> None:
        self._knobs = knobs or Knobs()
        self._senses = senses or real_senses()
        self._all: dict[int, _Watched] = {}
        self._offset = self._senses.boot() - self._senses.mono()
        self.problems: dict[int | None, str] = {}

    def now(self) -> Now:
        """This moment."""
        return Now(self._senses.wall(), self._senses.mono())

    def born(self, found: Found) -> None:
        """A server came, or is told anew: its state goes on."""
        known = self._all.get(found.pid)
        if known is not None and known.found.incarnation == found.incarnation:
            known.found = found
            return
        self._drop(found.pid)
        pid = found.pid
        clients = Clients(lambda: self._senses.owned(pid), lambda: self._senses.being_read(pid))
        state = ServerState(self.now(), knobs=self._knobs)
        self._all[pid] = _Watched(found, state, clients, self._senses.pulse(found))

    def ended(self, ended: Ended, fault: bool | None) -> Transition | None:
        """A server is gone: its last transition. ``fault`` as the book of deaths sees it."""
        known = self._all.get(ended.found.pid)
        if known is None or known.found.incarnation != ended.found.incarnation:
            return None
        now = Now(ended.wall, ended.mono)
        known.state.ended(fault, now, _end_text(ended))
        made = known.state.decide(now)
        self._drop(ended.found.pid)
        return made

    def note(self, evidence: Evidence, who: Incarnation | None = None) -> Transition | None:
        """A fact of one server's; the transition that it makes at once."""
        known = self._of(who or evidence.incarnation)
        if known is None:
            return None
        now = self.now()
        known.state.note(evidence, now)
        return known.state.decide(now)

    def planned(self, who: Incarnation, evidence: Evidence) -> Transition | None:
        """A supervisor stops the server on purpose."""
        known = self._of(who)
        if known is None:
            return None
        known.state.planned(evidence, self.now())
        return known.state.decide(self.now())

    def tick(self) -> list[tuple[Found, Transition]]:
        """Look at everyone once. Never raises for anything a server or the kernel does."""
        now = self.now()
        self._check_clocks(now)
        samples = self._dump_all()
        made = []
        for known in list(self._all.values()):
            self._look(known, samples.get(_namespace(known.found)), now)
            transition = known.state.decide(now)
            if transition is not None:
                made.append((known.found, transition))
        return made

    def view(self, who: Incarnation) -> StateView | None:
        """One server's state as it was decided last."""
        known = self._of(who)
        return known.state.view(self.now()) if known is not None else None

    def facts(self, who: Incarnation) -> tuple[Evidence, ...]:
        """The socket figures behind a stranded or hung state, newest look."""
        known = self._of(who)
        return known.facts if known is not None else ()

    def wanted(self) -> list[Found]:
        """Servers whose /props should be asked now: a client has waited for nearly as long as it may."""
        mono = self._senses.mono()
        found = []
        for known in self._all.values():
            longest = max((one.quiet for one in known.state.waiting), default=0.0)
            ripe = longest >= self._knobs.stranded - ASK_AHEAD_SECONDS
            if ripe and mono - known.asked >= ASK_AGAIN_SECONDS:
                known.asked = mono
                found.append(known.found)
        return found

    def stranded(self, who: Incarnation) -> tuple[TcpSample, ...]:
        """The connections of the stranded requests of one server, as looked at last."""
        known = self._of(who)
        return known.stuck if known is not None and known.state.state == "stranded" else ()

    def close(self) -> None:
        """Give all descriptors back."""
        for pid in list(self._all):
            self._drop(pid)
        self._tidy()

    def _look(self, known: _Watched, samples: Samples | None, now: Now) -> None:
        pulse = known.pulse(now.mono)
        if pulse is not None:
            known.state.pulse(pulse)
            self._look_at_loop(known, now)
        port = known.found.port
        if samples is None or port is None:
            unsure = UNIX_SOCKET if any(one.socket for one in known.found.listening) else None
            known.state.crowd(Crowd(now.mono, unsure=unsure))
            return
        mine = samples.get(port, [])
        crowd = known.clients.look(mine, now.mono, self._knobs.stranded)
        known.state.crowd(crowd)
        self._keep_facts(known, mine, crowd, now)

    def _look_at_loop(self, known: _Watched, now: Now) -> None:
        """Only where /props has not said it: a native server's main thread runs the loop."""
        if known.found.hosted or known.found.role == "router" or known.state.told_by_props(now):
            return
        known.state.loop_waits(known.loop.take(self._senses.main_wait(known.found.pid)), now.mono)

    def _keep_facts(self, known: _Watched, mine: Sequence[TcpSample], crowd: Crowd, now: Now) -> None:
        cookies = {one.socket for one in crowd.stuck}
        known.stuck = tuple(tcp for tcp in mine if tcp.cookie in cookies)
        if cookies:
            target = Target(known.found.port or 1, pid=known.found.pid)
            who = known.found.incarnation
            known.facts = tuple(
                to_socket_evidence(tcp, target, wall=now.wall, mono=now.mono, incarnation=who)
                for tcp in known.stuck
            )

    def _dump_all(self) -> dict[int | None, Samples]:
        spaces: dict[int | None, tuple[int, set[int]]] = {}
        for pid, known in self._all.items():
            if known.found.port is not None:
                spaces.setdefault(_namespace(known.found), (pid, set()))[1].add(known.found.port)
        found = {}
        self.problems.clear()
        for netns, (pid, ports) in spaces.items():
            try:
                found[netns] = self._senses.dump(netns, pid, frozenset(ports))
            except (UserError, OSError) as problem:
                self.problems[netns] = str(problem)
        self._tidy()
        return found

    def _tidy(self) -> None:
        if isinstance(self._senses.dump, Dumps):
            self._senses.dump.keep(_namespace(known.found) for known in self._all.values())

    def _check_clocks(self, now: Now) -> None:
        offset = self._senses.boot() - now.mono
        if offset - self._offset > SUSPENDED_SECONDS:
            for known in self._all.values():
                known.state.reset_timers(now, "the machine was suspended")
        self._offset = offset

    def _of(self, who: Incarnation) -> _Watched | None:
        known = self._all.get(who.pid or 0)
        return known if known is not None and known.found.incarnation.same_as(who) else None

    def _drop(self, pid: int) -> None:
        known = self._all.pop(pid, None)
        owner = getattr(known.pulse, "__self__", None) if known is not None else None
        if isinstance(owner, PulseReader):
            with suppress(OSError):
                owner.close()


def _namespace(found: Found) -> int | None:
    return next((one.netns for one in found.listening if one.port), None)


def _end_text(ended: Ended) -> str:
    if ended.signal is not None:
        return f"the process ended by signal {ended.signal}"
    if ended.code is not None:
        return f"the process ended with status {ended.code}"
    return "the process is gone; how it ended was not seen"
