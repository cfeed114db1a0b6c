"""What each server's process uses, read from one small file a server a tick."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence, Incarnation
from collector.sources.looks import look
from collector.sources.procfs import PROC, boot_id
from collector.sources.stream import DEFAULT_LIMIT, Batch, StreamHealth

EVERY = 1.0  # seconds between two reads of a server's counters
LOOK_EVERY = 60.0  # seconds between looks that become evidence while nothing changes
STOPPED = frozenset("Tt")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STAT = 1024  # bytes; the longest is 52 numbers
_IO = 512
_STATE, _UTIME, _STIME, _THREADS, _STARTED, _RSS = 0, 11, 12, 17, 19, 21


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters of one process at one moment; ``mono`` seconds of CLOCK_MONOTONIC. ``state`` is the kernel's
    letter; ``io_bytes`` read and written so far, None where that may not be read."""

    pid: int
    start_time: float
    mono: float
    state: str
    cpu_seconds: float
    threads: int
    resident_bytes: int
    io_bytes: int | None = None


class _Held:
    """Open files of one process: after its death reads fail, they never hit another of its number."""

    def __init__(self, pid: int) -> None:
        folder = os.open(PROC / str(pid), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.stat = os.open("stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
            self.io: int | None = None
            with suppress(OSError):
                self.io = os.open("io", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        self.looked = float("-inf")
        self.stopped: bool | None = None

    def close(self) -> None:
        for descriptor in (self.stat, self.io):
            if descriptor is not None:
                os.close(descriptor)


class SampleStream:
    """The contract of sources/stream.py over the counters of some processes.

    Every tick gives a Sample each (``latest``, ``before``), which are no evidence: a look becomes evidence
    once a minute, when a process is stopped or goes on, and when ``ask`` was called. Threads are only read
    for those.
    """

    name = "samples"

    def __init__(
        self,
        *,
        every: float = EVERY,
        look_every: float = LOOK_EVERY,
        io: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every, self._look_every, self._io, self._now = every, look_every, io, now
        self._held: dict[int, _Held] = {}
        self._wishes: set[int] = set()
        self._last = float("-inf")
        self.latest: dict[int, Sample] = {}
        self.before: dict[int, Sample] = {}
        self._read = self._told = 0

    def watch(self, pids: Iterable[int]) -> None:
        """The processes that are sampled from now on; one that is gone already is left out."""
        wanted = set(pids)
        for pid in self._held.keys() - wanted:
            self._drop(pid)
        for pid in wanted - self._held.keys():
            with suppress(OSError):
                self._held[pid] = _Held(pid)

    def ask(self, pid: int) -> None:
        """A look with threads at the next poll, as evidence."""
        self._wishes.add(pid)

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        for pid in list(self._held):
            self._drop(pid)

    def health(self) -> StreamHealth:
        return StreamHealth("ok", None, self._read, self._told)

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch:
        """One tick, when it is due."""
        now = self._now()
        if now - self._last < self._every and not self._wishes:
            return Batch()
        self._last = now
        found: list[Evidence] = []
        for pid in list(self._held):
            self._tick(pid, now)
            if pid in self._held and len(found) < limit:
                found += self._look(pid, now)
        self._wishes.clear()
        self._told += len(found)
        return Batch(tuple(found))

    def _tick(self, pid: int, now: float) -> None:
        held = self._held[pid]
        try:
            sample = _sample(pid, held, now, self._io)
        except (OSError, ValueError, IndexError):
            self._drop(pid)
            return
        self._read += 1
        if pid in self.latest:
            self.before[pid] = self.latest[pid]
        self.latest[pid] = sample

    def _look(self, pid: int, now: float) -> list[Evidence]:
        held = self._held[pid]
        stopped = self.latest[pid].state in STOPPED
        changed = held.stopped is not None and stopped != held.stopped
        held.stopped = stopped
        if not changed and pid not in self._wishes and now - held.looked < self._look_every:
            return []
        held.looked = now
        found = look(pid)
        same = Incarnation(pid=pid, start_time=self.latest[pid].start_time, boot_id=boot_id())
        return [found] if found is not None and found.incarnation.same_as(same) else []

    def _drop(self, pid: int) -> None:
        self._held.pop(pid).close()
        self.latest.pop(pid, None)
        self.before.pop(pid, None)

    def cpu_share(self, pid: int) -> float | None:
        """Cores in use between the last two ticks, None before there were two."""
        one, two = self.before.get(pid), self.latest.get(pid)
        if one is None or two is None or two.mono <= one.mono:
            return None
        return (two.cpu_seconds - one.cpu_seconds) / (two.mono - one.mono)


def _sample(pid: int, held: _Held, now: float, io: bool) -> Sample:
    fields = os.pread(held.stat, _STAT, 0).rpartition(b")")[2].split()
    return Sample(
        pid,
        int(fields[_STARTED]) / _TICKS,
        now,
        fields[_STATE].decode("ascii", "replace"),
        (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS,
        int(fields[_THREADS]),
        int(fields[_RSS]) * _PAGE,
        _io_bytes(held) if io else None,
    )


def _io_bytes(held: _Held) -> int | None:
    """rchar and wchar of /proc/PID/io: what went through read and write, the page cache included."""
    if held.io is None:
        return None
    try:
        rows = os.pread(held.io, _IO, 0).split()
    except OSError:
        return None
    return int(rows[1]) + int(rows[3]) if len(rows) >= 4 else None
