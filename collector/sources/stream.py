"""What every continuous source of the agent is: polled without blocking, with a cursor it can go on from.

The cursor and the evidence read up to it are stored in one transaction; a stream that is opened again with a
stored cursor yields what came after it, and says in a gap what it could not get back to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap

DEFAULT_LIMIT = 1000  # evidence objects of one poll: a burst is taken in portions, other work in between


@dataclass(frozen=True)
class Batch:
    """What one poll yielded. ``cursor`` is opaque text to go on from, None where the source has no position;
    ``more`` asks to be polled again at once; ``gaps`` are what was lost (suppressed, rotated away, cut)."""

    evidence: tuple[Evidence, ...] = ()
    cursor: str | None = None
    gaps: tuple[Gap, ...] = ()
    more: bool = False

    @property
    def empty(self) -> bool:
        """Nothing to store."""
        return not self.evidence and not self.gaps


@dataclass(frozen=True)
class StreamHealth:
    """How a stream is. ``state``: ok | waiting | degraded | failed; ``problem`` is one line, what to do
    included; counts since the start. ``lost`` counts what the source itself says it lost."""

    state: str = "ok"
    problem: str | None = None
    read: int = 0
    told: int = 0
    lost: int = 0


class Stream(Protocol):
    """One independent source. ``name`` is stable over restarts: the cursor is stored under it.

    ``poll`` never blocks and never raises for anything the source does: trouble shows in ``health`` and,
    where evidence was lost, in a gap. ``fileno`` is a descriptor that becomes readable, None to be polled.
    """

    name: str

    def fileno(self) -> int | None: ...

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch: ...

    def health(self) -> StreamHealth: ...

    def close(self) -> None: ...
