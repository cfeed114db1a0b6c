"""The last lines of each server's daily work: kept in memory, and stored only when something befalls it."""

from __future__ import annotations

from collections import deque

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import LogFact

# Events of daily work: a busy server prints hundreds a second, and its log has them all.
ROUTINE = frozenset({"task-launched", "task-done", "slots-idle", "request"})
KEPT = 64  # of one server


class Recent:
    """By PID; a server that is not watched has none."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[Evidence]] = {}

    def born(self, pid: int) -> None:
        """A server that is watched."""
        self._lines[pid] = deque(maxlen=KEPT)

    def gone(self, pid: int) -> None:
        """It is watched no more."""
        self._lines.pop(pid, None)

    def keeps(self, evidence: Evidence) -> bool:
        """Whether this is a line of daily work, which is kept here and not stored now."""
        if evidence.kind != LogFact.KIND or evidence.data.get("event") not in ROUTINE:
            return False
        lines = self._lines.get(evidence.incarnation.pid or 0)
        if lines is not None:
            lines.append(evidence)
        return lines is not None

    def take(self, pid: int) -> list[Evidence]:
        """What the server did last, once."""
        lines = self._lines.get(pid)
        told = list(lines or ())
        if lines is not None:
            lines.clear()
        return told
