"""Every llama-server of this host, kept up to date: by the kernel's process events, else by looking.

With the events a poll in which nothing happened costs a system call. Without them /proc is listed once a
second; then the end of a server has a code only where its zombie is still to be seen.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import PurePosixPath

from analyzers.contracts.evidence import Incarnation
from collector.discovery import events as kernel
from collector.discovery.describe import Described, Describer
from collector.discovery.look import KERNEL_THREADS, Mark, is_interpreter, mark_of
from collector.discovery.model import Changes, Ended, Found
from collector.discovery.processes import bare, comm, connected, has_ended, listing
from collector.discovery.tracked import SOON, End, Told, Tracked
from collector.discovery.waiting import NEVER, Other, Waiting
from collector.gather.servers import DELETED, PROGRAM, UNIFIED
from collector.sources.procfs import PROC, GoneError, boot_id
from collector.sources.stream import StreamHealth

EVENTS_A_POLL = 4096  # messages: some 20 ms of work
WORK_SECONDS = 0.2  # of one poll: what is left over waits for the next
POLLING_SECONDS = 1.0  # between two listings of /proc without events
# With events a listing finds only what was forked and not executed, or was lost.
RESCAN_SECONDS = 10.0
LATE = 60.0  # seconds until the sockets of a server that has some are looked at again
SOCKETS_SLOWEST = 5.0
SETTLE_SECONDS = 0.25  # the thread that wrote the core may end a little after the main one
LEADER_SECONDS = 5.0  # a main thread ended and others live on: its status is not the process's
OLD_LOOKS = 7  # a process older than the agent is past its first seconds: the next look after some 40 s
SPREAD_SECONDS = 20.0  # over which the first looks at a host's other processes are spread
MAX_HIDDEN = 1000


class Discovery:
    """``events`` False looks for itself even where the kernel would tell. Not thread-safe; never raises for
    anything a process does: see ``health``."""

    def __init__(self, *, events: bool = True, describer: Describer | None = None) -> None:
        self._describer = describer or Describer()
        self._connector = connected() if events else None
        self._asked = events
        self._servers: dict[int, Tracked] = {}
        self._waiting = Waiting()
        self._brief: dict[int, Tracked] = {}
        self._ends: dict[int, End] = {}
        self._dumping: dict[int, float] = {}
        self._dumped: set[int] = set()
        self._inodes: dict[int, int] = {}
        self._hidden: dict[int, str] = {}
        self._next_scan = 0.0
        self._settled = False  # the processes that were there before are known
        self._next_refresh = NEVER
        self._search = False
        self._lost = self._told = self._unseen = self._withheld = 0
        self._out = Told()
        self._boot = boot_id()

    def fileno(self) -> int | None:
        """Readable when a process event has come; None when it has to be polled."""
        return self._connector.fileno() if self._connector is not None else None

    @property
    def pending(self) -> bool:
        """Work was left over: poll again at once, other work in between."""
        return self._waiting.next_due() <= time.monotonic()

    @property
    def dumping(self) -> frozenset[int]:
        """PIDs of known servers whose core is being written: dying, and not yet gone."""
        return frozenset(self._dumping)

    def known(self) -> tuple[Found, ...]:
        """The living servers, the lowest PID first."""
        return tuple(server.found for _, server in sorted(self._servers.items()))

    def poll(self) -> Changes:
        """What changed since the last one. Never blocks; its work is bounded (``pending``)."""
        now = time.monotonic()
        self._search = True
        self._describer.addresses.forget()
        if self._connector is not None:
            self._take(self._connector, now)
        if now >= self._next_scan:
            self._scan(now)
        if self._ends or self._brief:
            self._finish(now)
        if self._waiting.next_due() <= now:
            self._look(now)
        if now >= self._next_refresh:
            self._refresh(now)
        out, self._out = self._out, Told()
        self._told += len(out.born) + len(out.ended) + len(out.changed) + len(out.brief)
        return out.changes()

    def health(self) -> StreamHealth:
        """``read`` process events, ``told`` changes, ``lost`` overruns of the kernel's buffer."""
        said = []
        if self._asked and self._connector is None:
            said.append(kernel.NO_RIGHTS)
        if self._hidden:
            names = ", ".join(sorted(set(self._hidden.values()))[:3])
            what = f"{len(self._hidden)} processes that call themselves servers may not be looked into"
            said.append(f"{what} ({names}): run the agent as root or with CAP_SYS_PTRACE")
        read = self._connector.received if self._connector is not None else 0
        state = "degraded" if said else "ok"
        return StreamHealth(state, "; ".join(said) or None, read, self._told, self._lost)

    def close(self) -> None:
        """Ends the subscription. Safe to call again."""
        if self._connector is not None:
            self._connector.close()
            self._connector = None

    # Events

    def _take(self, connector: kernel.Connector, now: float) -> None:
        try:
            found, lost = connector.take(EVENTS_A_POLL)
        except OSError:
            self.close()
            return
        if lost:
            self._lost += 1
            self._next_scan = now
        for event in found:
            if event.kind == kernel.EXEC:
                self._executed(event, now)
            elif event.kind == kernel.EXIT:
                self._exited(event, now)
            elif event.pid in self._servers or event.pid in self._brief:
                self._dumping[event.pid] = event.mono

    def _executed(self, event: kernel.ProcessEvent, now: float) -> None:
        """A program began: in a new process, or in place of what a known one was."""
        if event.pid in self._ends:
            self._end(event.pid, self._ends.pop(event.pid).event)
        if event.pid in self._servers:
            self._again(event.pid, self._servers[event.pid], event)
        else:
            self._fresh(event.pid, now, event)

    def _exited(self, event: kernel.ProcessEvent, now: float) -> None:
        known = event.pid in self._servers or event.pid in self._brief
        if known and event.dumped:
            self._dumped.add(event.pid)
        if known and event.whole:
            self._ends[event.pid] = End(event, now)
        elif event.whole:
            self._waiting.drop(event.pid)
            self._hidden.pop(event.pid, None)

    def _finish(self, now: float) -> None:
        """Processes that have ended, once it is sure that they have, and whether a core was written."""
        for pid, end in list(self._ends.items()):
            server = self._servers.get(pid) or self._brief.get(pid)
            if server is None:
                del self._ends[pid]
            elif not has_ended(pid, server.mark):
                if now - end.since > LEADER_SECONDS:
                    del self._ends[pid]
            elif pid not in self._dumping or pid in self._dumped or now - end.since > SETTLE_SECONDS:
                del self._ends[pid]
                self._end(pid, end.event)
        for pid, server in list(self._brief.items()):
            if pid not in self._ends and now - server.due > LEADER_SECONDS:
                server.due = now
                if has_ended(pid, server.mark):
                    self._end(pid, None)

    def _end(self, pid: int, event: kernel.ProcessEvent | None, status: int | None = None) -> None:
        """Tell an end: with the kernel's event, or a zombie's wait status, or nothing but the absence."""
        brief = self._brief.pop(pid, None)
        server = self._servers.pop(pid, None)
        into = self._out.ended if server is not None else self._out.brief
        server = server or brief
        if server is None:
            return
        now = time.monotonic()
        if event is None and status is not None:
            event = kernel.ProcessEvent(kernel.EXIT, pid, now, status)
        if event is None:
            into.append(Ended(server.found, time.time(), now))
        else:
            dumped = event.dumped or pid in self._dumped
            into.append(Ended(server.found, event.wall, event.mono, event.code, event.signal, dumped))
        self._dumped.discard(pid)
        self._dumping.pop(pid, None)
        self._inodes.pop(pid, None)

    # Newcomers

    def _fresh(self, pid: int, now: float, event: kernel.ProcessEvent | None = None) -> None:
        """A process not seen before: by its program's name looked at now, or later for what it loads."""
        if pid == os.getpid():
            return
        self._waiting.drop(pid)
        self._brief.pop(pid, None)
        try:
            exe = os.readlink(PROC / str(pid) / "exe").removesuffix(DELETED)
        except PermissionError:
            self._withhold(pid)
            self._waiting.add(pid, now + SPREAD_SECONDS, OLD_LOOKS)
        except OSError:
            self._without_program(pid, event, now)
        else:
            self._sort(pid, exe, now, event)

    def _sort(self, pid: int, exe: str, now: float, event: kernel.ProcessEvent | None) -> None:
        name = PurePosixPath(exe).name
        if PROGRAM.search(name) or UNIFIED.match(name):
            if event is not None and PROGRAM.search(name):
                self._seen(pid, exe, now)
            self._waiting.add(pid, now, named=True)
            if event is not None:
                self._try(pid, Other(now, named=True), now)
        elif event is not None or self._settled:
            self._waiting.begin(pid, now)
        elif is_interpreter(exe):
            self._waiting.add(pid, now)
        else:
            self._waiting.add(pid, now + pid * 0.618 % 1.0 * SPREAD_SECONDS, OLD_LOOKS)

    def _seen(self, pid: int, exe: str, now: float) -> None:
        """Remember a server before it is described: it may not live so long."""
        mark = mark_of(pid)
        if mark is not None:
            self._brief[pid] = Tracked(bare(pid, mark, exe, self._boot), mark, now)

    def _without_program(self, pid: int, event: kernel.ProcessEvent | None, now: float) -> None:
        """A kernel thread, or a process that is dead already: its name alone is left."""
        mark = mark_of(pid)
        if mark is None:
            self._unseen += event is not None
            return
        if mark.state in "ZX" and event is not None:
            name = comm(pid)
            if PROGRAM.search(name):
                self._brief[pid] = Tracked(bare(pid, mark, name, self._boot), mark, now)
        elif KERNEL_THREADS in (pid, mark.parent):
            self._waiting.add(pid, NEVER)
        elif mark.state not in "ZX":
            self._waiting.begin(pid, now)

    def _withhold(self, pid: int) -> None:
        self._withheld += 1
        name = comm(pid)
        if PROGRAM.search(name) and len(self._hidden) < MAX_HIDDEN:
            self._hidden[pid] = name

    # Looks

    def _look(self, now: float) -> None:
        until = now + WORK_SECONDS
        for pid, other in self._waiting.due(now):
            if time.monotonic() > until:
                self._waiting.put_back(pid, other)
                return
            self._try(pid, other, now)

    def _try(self, pid: int, other: Other, now: float) -> None:
        """Look whether it is a server by now; else wait for the next time."""
        mark = mark_of(pid)
        if mark is None:
            self._waiting.drop(pid)
            if pid in self._brief and self._connector is None:
                self._end(pid, None)
            return
        grown = (mark.size, mark.stack) != (other.size, other.stack)
        search = not other.searched and other.looks > 0
        if search and not grown and not self._may_search(pid, other):
            self._waiting.soon(pid, now)
            return
        if grown or search or not other.looks:
            other.size, other.stack = mark.size, mark.stack
            if not self._is_fork(mark) and self._described(pid, now, other):
                return
        self._waiting.again(pid, now)

    def _described(self, pid: int, now: float, other: Other) -> bool:
        """Whether it is a server, which is told then."""
        other.searched = self._may_search(pid, other)
        reads = self._describer.builds.reads
        try:
            made = self._describer.describe(pid, self._router, search=other.searched)
        except PermissionError:
            self._withhold(pid)
            return False
        except (GoneError, OSError, ValueError):
            return False
        finally:
            self._search = self._search and self._describer.builds.reads == reads
        if made is None:
            return False
        self._waiting.drop(pid)
        self._hidden.pop(pid, None)
        self._brief.pop(pid, None)
        self._keep(pid, made, now)
        self._out.born.append(made.found)
        return True

    def _may_search(self, pid: int, other: Other) -> bool:
        """One large file a poll is searched for the server's code, and none of a process just begun."""
        return other.looks > 0 and (self._search or self._describer.builds.seen(PROC / str(pid) / "exe"))

    def _is_fork(self, mark: Mark) -> bool:
        """A fork of a known server that has executed nothing: of its threads it has only one."""
        parent = self._servers.get(mark.parent)
        return parent is not None and mark.stack != 0 and parent.mark.stack == mark.stack

    def _router(self, pid: int) -> Incarnation | None:
        server = self._servers.get(pid)
        return server.found.incarnation if server is not None and not server.found.hosted else None

    def _keep(self, pid: int, made: Described, now: float) -> None:
        delay = LATE if made.found.listening else SOON
        self._servers[pid] = Tracked(made.found, made.mark, now + delay, delay)
        self._next_refresh = min(self._next_refresh, now + delay)

    # Known servers

    def _again(self, pid: int, server: Tracked, event: kernel.ProcessEvent | None) -> None:
        """A known server executed a program in its place: another run of the same one, or something else."""
        now = time.monotonic()
        try:
            made = self._describer.describe(pid, self._router, previous=server.found)
        except (GoneError, OSError, ValueError):
            self._next_scan = min(self._next_scan, now + SOON)  # it ended meanwhile, or goes on changing
            return
        if made is None or made.found.incarnation != server.found.incarnation:
            self._end(pid, None)
            self._fresh(pid, now, event)
            return
        self._keep(pid, made, now)
        self._out.changed.append(made.found)

    def _refresh(self, now: float) -> None:
        """The sockets of those whose turn it is: a model may take minutes to load before there is one."""
        for pid, server in list(self._servers.items()):
            if server.due <= now:
                found = server.found
                addresses, seen = self._describer.addresses.of(pid, _port(found))
                if seen and addresses != found.listening and not has_ended(pid, server.mark):
                    server.found = replace(found, listening=addresses)
                    self._out.changed.append(server.found)
                server.delay = LATE if addresses else min(server.delay * 2, SOCKETS_SLOWEST)
                server.due = now + server.delay if seen else NEVER
        self._next_refresh = min((server.due for server in self._servers.values()), default=NEVER)

    def _scan(self, now: float) -> None:
        """List /proc. An inode of another number is another process behind the same PID, or a cache that was
        emptied: both are looked at again."""
        self._next_scan = now + (RESCAN_SECONDS if self._connector is not None else POLLING_SECONDS)
        found = listing()
        old, self._inodes = self._inodes, found
        for pid, inode in found.items():
            known = pid in self._servers or pid in self._brief
            adopted = pid in self._waiting and pid not in old
            if old.get(pid) != inode and not known and not adopted:
                self._fresh(pid, now)
        self._settled = True
        for pid in old.keys() - found.keys():
            self._waiting.drop(pid)
            self._hidden.pop(pid, None)
        for pid, server in list(self._servers.items()):
            self._check(pid, server)

    def _check(self, pid: int, server: Tracked) -> None:
        """Whether a known server is still the same program of the same life."""
        if pid in self._ends:
            return
        mark = mark_of(pid)
        if mark is None or mark.start != server.mark.start:
            self._end(pid, None)
            if mark is not None:
                self._fresh(pid, time.monotonic())
        elif mark.dead:
            self._end(pid, None, mark.status)
        elif mark.stack != server.mark.stack and mark.stack:
            self._again(pid, server, None)


def _port(found: Found) -> int | None:
    """The port of its settings."""
    said = (one.value for one in found.settings if one.name == "port")
    return next((int(value) for value in said if value.isdigit() and len(value) < 6), None)
