"""Child processes that are always taken down, and how one ended."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# A server that prints its own backtrace has a child or two; more is a fork loop, which the group kill ends.
FAMILY_LIMIT = 64


@dataclass(frozen=True)
class Ending:
    """How a process ended: by ``signal`` or with ``code``; times are when it was noticed (seconds,
    CLOCK_MONOTONIC and Unix). ``dumped`` is the kernel's own word that it wrote or piped a core."""

    signal: int | None
    code: int | None
    when_mono: float
    when_wall: float
    dumped: bool = False


class Child:
    """A process in a group and session of its own.

    Its zombie is left until ``take_down``: as long as it is there, neither its PID nor its group's
    can go to another process, so no signal of ours can hit a stranger.
    """

    def __init__(self, popen: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
        self.popen = popen
        self.pid = popen.pid
        self.ending: Ending | None = None
        self._ended = ended
        self._watcher = threading.Thread(target=self._watch, name="reference-watch", daemon=True)
        self._watcher.start()
        _LIVE.add(self)

    def _watch(self) -> None:
        with suppress(ChildProcessError):
            result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            if result is not None:
                self.ending = _ending(result.si_code, result.si_status)
        self._ended()

    def signal(self, number: int) -> None:
        """Send a signal to the process itself; nothing happens when it has ended."""
        if self.ending is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def take_down(self, grace: float) -> None:
        """Kill the process, its group and its descendants, and reap it. Safe to call again."""
        if self.popen.returncode is not None:
            return
        family = descendants(self.pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for member in family:
            member.kill()
        self._watcher.join(grace)
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(grace)
        _LIVE.discard(self)


@dataclass(frozen=True)
class Member:
    """A descendant process and its start time (clock ticks since boot): PIDs are given out again."""

    pid: int
    start_ticks: int

    def kill(self) -> None:
        """SIGKILL, unless the PID belongs to another process by now."""
        if _start_ticks(self.pid) == self.start_ticks:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)


def descendants(pid: int) -> list[Member]:
    """Living descendants of ``pid``, nearest first; empty when it has none or is gone."""
    found: list[Member] = []
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop(0)):
            ticks = _start_ticks(child)
            if ticks is not None and len(found) < FAMILY_LIMIT:
                found.append(Member(child, ticks))
                waiting.append(child)
    return found


def _children(pid: int) -> list[int]:
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(number) for text in texts for number in text.split()]


def _start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat; the name before it may hold blanks and brackets. See proc(5)."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(after_name[19])
    except (OSError, ValueError, IndexError):
        return None


def _ending(code: int, status: int) -> Ending:
    by_signal = code in (os.CLD_KILLED, os.CLD_DUMPED)
    return Ending(
        signal=status if by_signal else None,
        code=None if by_signal else status,
        when_mono=time.monotonic(),
        when_wall=time.time(),
        dumped=code == os.CLD_DUMPED,
    )


_LIVE: weakref.WeakSet[Child] = weakref.WeakSet()
ATEXIT_GRACE = 5.0


@atexit.register
def _take_down_all() -> None:
    for child in list(_LIVE):
        child.take_down(ATEXIT_GRACE)


def is_dumping(pid: int, proc: Path = Path("/proc")) -> bool:
    """True while the kernel writes a core of ``pid`` (``CoreDumping`` in its status, since Linux 4.15)."""
    try:
        status = (proc / str(pid) / "status").read_text("utf-8", "replace")
    except OSError:
        return False
    return "\nCoreDumping:\t1" in status
