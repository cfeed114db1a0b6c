"""What discovery keeps of a known server, of an end that is not sure yet, and of what is to be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from collector.discovery.events import ProcessEvent
from collector.discovery.look import Mark
from collector.discovery.model import Changes, Ended, Found

SOON = 0.1  # seconds until the sockets of a server that has none yet are looked at again


@dataclass
class Tracked:
    """A server; ``due`` is when its sockets are looked at next, or when it was seen first."""

    found: Found
    mark: Mark
    due: float
    delay: float = SOON


@dataclass
class End:
    """The kernel told of an end at ``since``, seconds of the monotonic clock."""

    event: ProcessEvent
    since: float


@dataclass
class Told:
    """What the next poll gives."""

    born: list[Found] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    changed: list[Found] = field(default_factory=list)
    brief: list[Ended] = field(default_factory=list)

    def changes(self) -> Changes:
        return Changes(tuple(self.born), tuple(self.ended), tuple(self.changed), tuple(self.brief))
