"""The server of the next trial: the last one's where it is still good, a fresh one where it is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collector.lab.reference.conditions import asleep_by_props
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec

# A fresh wait aligned by a poke reaches past a limit of one second, so a longer one would only cost time.
IDLE_SECONDS = 1
# Every look reads the log's lines in memory: a server of hundreds of trials is replaced before that counts.
TRIALS_PER_SERVER = 40


@dataclass
class Warm:
    """At most one server at a time. ``proven``: it was seen to sleep when told to, nothing in flight."""

    lab: ReferenceServer
    base: ServerSpec
    server: RunningServer | None = None
    proven: bool = False
    used: int = 0
    started: int = 0

    def take(self, *, poisoned: bool) -> RunningServer:
        """A live server, awake or asleep. Raises UserError when a fresh one does not start."""
        spec = replace(self.base, idle_seconds=IDLE_SECONDS, poisoned=poisoned)
        held = self.server
        if held is None or held.finished or held.spec != spec or self.used >= TRIALS_PER_SERVER:
            self.drop()
            held = self.server = self.lab.start(spec)
            self.started += 1
        self.used += 1
        return held

    def drop(self) -> None:
        """Take the server down: the next trial gets a fresh one."""
        if self.server is not None:
            self.server.take_down()
        self.server, self.proven, self.used = None, False, 0


def asleep_now(server: RunningServer) -> bool:
    """By /props, asked once, bounded; an ended server is not asleep."""
    return not server.finished and asleep_by_props(server)
