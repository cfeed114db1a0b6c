"""What becomes of a request whose thread was let go."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from pathlib import Path

from collector.lab.reference.client import Pending, Request
from collector.lab.reference.conditions import asleep_by_log, asleep_by_props
from collector.lab.verify.directed.debugged import DebuggedServer
from collector.lab.verify.directed.steps import pass_on

# A server that computes or reads freed memory runs: how long it may do so before the trial says nothing.
WATCH_DEADLINE = 120.0
# Looks in a row, one each 20 ms, at which no thread ran or wanted to. A thread that was woken and waits
# for a processor shows as running, however busy the machine is.
STILL_LOOKS = 40
RELEASE_DEADLINE = 30.0
END_DEADLINE = 15.0
WAKING = Request("GET", "/slots", timeout=RELEASE_DEADLINE)


class Became(Enum):
    DIED = "died"
    ANSWERED = "answered"
    STRANDED = "stranded"
    SILENT = "silent"


class Stillness:
    """Counts looks at which all of the server's threads slept."""

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self.looks = 0

    def look(self) -> bool:
        """One look; True when there were enough still ones in a row."""
        states = thread_states(self._tasks)
        self.looks = self.looks + 1 if states and set(states) == {"S"} else 0
        return self.looks >= STILL_LOOKS


def thread_states(tasks: Path) -> list[str]:
    """The state letter of each thread, by /proc/PID/task/*/stat; see proc(5)."""
    found = []
    with suppress(OSError):
        for entry in tasks.iterdir():
            with suppress(OSError, IndexError):
                found.append((entry / "stat").read_text().rpartition(")")[2].split()[0])
    return found


def watch(server: DebuggedServer, pending: Pending) -> Became:
    """Wait for the server's death, the answer, or both sides at rest for good.

    Stranded: the last transition is the one into sleep, GET /props says so, nothing in the server runs or
    wants to, and the client still waits.
    """
    still = Stillness(server.pid)
    found: list[Became] = []

    def over(_: object) -> bool:
        if pass_on(server):
            found.append(Became.DIED)
        elif not pending.waiting:
            found.append(Became.ANSWERED)
        elif asleep_by_log(server) and still.look() and _at_rest(server, pending):
            found.append(Became.STRANDED)
        return bool(found)

    server.wait_until(over, WATCH_DEADLINE)
    return _broken_means_died(server, pending, found[0] if found else Became.SILENT)


def _at_rest(server: DebuggedServer, pending: Pending) -> bool:
    return asleep_by_props(server) and asleep_by_log(server) and pending.waiting


def _broken_means_died(server: DebuggedServer, pending: Pending, became: Became) -> Became:
    """A connection that broke without an answer announces an end that gdb has still to tell."""
    broken = pending.answer is not None and pending.answer.status is None
    if became is Became.ANSWERED and broken:
        return Became.DIED if server.wait_until(lambda _: pass_on(server), END_DEADLINE) else Became.SILENT
    return became


def release(server: DebuggedServer, pending: Pending) -> bool:
    """Wake the server by GET /slots; True when that brings the stranded request its answer."""
    poke = Pending(server.port, WAKING, server.spec.api_key)
    server.wait_until(lambda _: pass_on(server) or not (poke.waiting or pending.waiting), RELEASE_DEADLINE)
    answer = pending.answer
    return answer is not None and answer.status is not None
