"""A source of evidence: a file whose time stamp says that maintenance has begun."""

from __future__ import annotations

import os
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Trust
from collector.sources.stream import DEFAULT_LIMIT, Batch, StreamHealth

MARK = Path("/run/llama-maintenance")


class Maintenance:
    """One evidence for each time that MARK was touched. The cursor is its time stamp."""

    name = "maintenance"

    def __init__(self, mark: Path = MARK) -> None:
        self._mark = mark
        self._seen: int | None = None
        self._told = 0

    def fileno(self) -> int | None:
        return None

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch:
        try:
            stamp = os.stat(self._mark).st_mtime_ns
        except OSError:
            return Batch()
        if stamp == self._seen:
            return Batch(cursor=str(stamp))
        self._seen, self._told = stamp, self._told + 1
        fact = Evidence(
            id=f"maintenance-{stamp}",
            kind="maintenance",
            source=self._mark.name,
            text="maintenance has begun: restarts are planned",
            trust=Trust.SUPERVISOR,
            wall=stamp / 1e9,
        )
        return Batch((fact,), str(stamp))

    def health(self) -> StreamHealth:
        return StreamHealth(told=self._told)

    def close(self) -> None:
        """Nothing is held open."""


def source() -> Maintenance:
    """The entry point."""
    return Maintenance()
