"""Cheap looks at processes: one read of a file that stays open, a few microseconds each."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from collector.agent.states.model import Pulse

_TICKS = os.sysconf("SC_CLK_TCK")
_STATE, _FLAGS, _MAJFLT, _UTIME, _STIME, _STARTTIME = 0, 6, 9, 11, 12, 19  # of stat, after the name
# include/linux/sched.h: PF_EXITING, PF_POSTCOREDUMP, PF_DUMPCORE, PF_SIGNALED
_DYING = 0x4 | 0x8 | 0x200 | 0x400
_CALM = "SRI"
_STAT_BYTES = 1024  # 52 numbers and a name of 64 bytes
_STATUS_BYTES = 8192
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(os.uname().machine)


class PulseReader:
    """The pulse of one incarnation. ``start_time`` (seconds since boot) guards against a reused number."""

    def __init__(self, pid: int, start_time: float | None = None) -> None:
        self.pid = pid
        self._started = None if start_time is None else round(start_time * _TICKS)
        self._stat: int | None = None
        with suppress(OSError):
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)

    def read(self, mono: float) -> Pulse | None:
        """None when the process is gone."""
        if self._stat is None:
            return None
        try:
            fields = os.pread(self._stat, _STAT_BYTES, 0).rpartition(b")")[2].split()
            state, flags = fields[_STATE].decode("ascii"), int(fields[_FLAGS])
            cpu, faults = int(fields[_UTIME]) + int(fields[_STIME]), int(fields[_MAJFLT])
            started = int(fields[_STARTTIME])
        except (OSError, ValueError, IndexError):
            return None
        if self._started is not None and started != self._started:
            return None
        odd = state not in _CALM or flags & _DYING
        dumping, tracer = _status(self.pid) if odd else (False, 0)
        return Pulse(mono, state, cpu / _TICKS, faults, dumping, tracer)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._stat is not None:
            os.close(self._stat)
            self._stat = None


def _status(pid: int) -> tuple[bool, int]:
    dumping, tracer = False, 0
    with suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file.read(_STATUS_BYTES).splitlines():
            if line.startswith(b"CoreDumping:"):
                dumping = line.split()[1] == b"1"
            elif line.startswith(b"TracerPid:"):
                tracer = int(line.split()[1])
    return dumping, tracer


@dataclass
class LoopWait:
    """How a native server's main thread, which runs the queue loop, waits (field notes, section 2).

    A wait in the same futex without a time-out over ``STEADY`` looks is a sleeping loop; one with a time-out
    is an awake and idle one. Anything else says nothing.
    """

    STEADY = 3  # looks: an awake loop that works waits for its compute threads for milliseconds
    _last: tuple[str, bool] | None = None
    _count: int = 0

    def take(self, text: str | None) -> bool | None:
        """``text``: /proc/PID/syscall of the main thread. True: asleep, False: awake, None: neither."""
        words = (text or "").split()
        if len(words) < 5 or words[0] != str(_FUTEX):
            self._last, self._count = None, 0
            return None
        seen = (words[1], int(words[4], 16) == 0)
        self._count = self._count + 1 if seen == self._last else 1
        self._last = seen
        return seen[1] if self._count >= self.STEADY else None


def main_wait(pid: int) -> str | None:
    """/proc/PID/syscall; None where it may not be read."""
    with suppress(OSError), open(f"/proc/{pid}/syscall", "rb") as file:
        return file.read(256).decode("ascii", "replace")
    return None
