"""What becomes of a request whose thread was let go."""

from __future__ import annotations

from enum import Enum

from collector.lab.reference.client import Pending, Request
from collector.lab.reference.conditions import asleep_by_log, asleep_by_props
from collector.lab.verify.directed.debugged import DebuggedServer
from collector.lab.verify.directed.steps import pass_on
from collector.lab.verify.directed.stillness import Stillness
from collector.lab.verify.oracle import reporting

# A server that computes or reads freed memory runs: how long it may do so before the trial says nothing.
WATCH_DEADLINE = 120.0
RELEASE_DEADLINE = 30.0
END_DEADLINE = 15.0
WAKING = Request("GET", "/slots", timeout=RELEASE_DEADLINE)


class Became(Enum):
    DIED = "died"
    ANSWERED = "answered"
    STRANDED = "stranded"
    SILENT = "silent"


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
        elif reporting(server.output.lines()):
            still.looks = 0  # the sanitizer waits for whoever looks its names up: that is no rest
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
