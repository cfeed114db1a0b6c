"""Looks at a server from outside while a request is under way, and lets a stranded one go."""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence
from analyzers.errors import UserError
from collector.lab.faults.pinning import Pinned
from collector.lab.faults.provoked import DEATH_DEADLINE
from collector.lab.reference.client import Answer, Request
from collector.lab.reference.conditions import exited
from collector.lab.reference.server import RunningServer
from collector.lab.verify.oracle import reporting
from collector.lab.verify.pinned.warm import asleep_now
from collector.sources.stranded import Stranded, find_stranded
from collector.sources.target import Target

# A client that waits longer than any awake answer, with room for a busy machine. Seconds.
SLOWER_THAN_AWAKE, LEAST_PATIENCE = 2.0, 1.0
# An awake server that is only slow gets this long before the trial is given up.
LAST_PATIENCE = 10.0
# Quiet time that the collector's own search asks for; the client has been watched before it begins.
SEARCH_PATIENCE = 1.0
RELEASE_DEADLINE = 20.0
WAKING = Request("GET", "/slots", timeout=RELEASE_DEADLINE)


@dataclass(frozen=True)
class Held:
    """A request without an answer: is its server asleep, and does the collector's search see it?"""

    asleep: bool = False
    found: Stranded | None = None
    note: str | None = None

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return self.found.evidence if self.found else ()


def patience_for(awake_seconds: float) -> float:
    """How long a client is watched before its waiting says anything."""
    return max(LEAST_PATIENCE, awake_seconds * SLOWER_THAN_AWAKE)


def watch(server: RunningServer, pinned: Pinned, patience: float) -> Answer | None:
    """Wait for the answer or the end; a broken connection announces an end.

    The fault can come seconds before the end: writing a large core keeps the process as it is.
    """
    pending = pinned.pending
    server.wait_until(lambda each: each.ending is not None or not pending.waiting, patience)
    if pending.waiting and server.ending is None and not dying(server) and not asleep_now(server):
        server.wait_until(lambda each: each.ending is not None or not pending.waiting, LAST_PATIENCE)
    broken = pending.answer is not None and pending.answer.status is None
    if server.ending is not None or dying(server) or broken:
        server.wait_until(exited, DEATH_DEADLINE if dying(server) else LAST_PATIENCE)
    return pending.wait(LAST_PATIENCE) if server.ending is not None else pending.answer


def dying(server: RunningServer) -> bool:
    """Its core is being written, or the sanitizer prints its report: the client waits for a dead server."""
    return server.dumping or reporting(server.output.lines())


def look(server: RunningServer) -> Held:
    """Bounded looks that wake nothing: /props, then the sockets as the collector sees them, twice."""
    if not asleep_now(server):
        return Held()
    target = Target(server.port, pid=server.pid, api_key=server.spec.api_key)
    try:
        found = find_stranded(target, SEARCH_PATIENCE)
    except UserError as error:
        return Held(True, None, f"the sockets cannot be looked at ({error.what})")
    return Held(True, found)


def release(server: RunningServer, pinned: Pinned) -> Answer | None:
    """One waking call; the stranded client's answer, or None when it gets none within the deadline."""
    server.send(WAKING)
    return pinned.pending.wait(RELEASE_DEADLINE)
