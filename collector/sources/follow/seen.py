"""That a server prints at all, and when it last did: a hang is judged by it, so every line counts."""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.contracts.evidence import Incarnation

KEPT = 4096  # servers whose counters are kept; the longest silent ones are forgotten first


@dataclass(slots=True)
class Seen:
    """Counters of one process's output. ``lines`` all of them, ``told`` those that became evidence; the
    clocks of the last line in microseconds, 0 before there was one."""

    pid: int | None
    unit: str | None
    incarnation: Incarnation
    lines: int = 0
    told: int = 0
    wall_us: int = 0
    mono_us: int = 0

    @property
    def wall(self) -> float | None:
        """Unix seconds of the last line."""
        return self.wall_us / 1e6 if self.wall_us else None

    @property
    def mono(self) -> float | None:
        """The last line's seconds of CLOCK_MONOTONIC."""
        return self.mono_us / 1e6 if self.mono_us else None


def rates(before: dict[str, int], after: dict[str, Seen], seconds: float) -> dict[str, float]:
    """Lines a second of each server between two looks; ``before`` is what ``counts`` gave then."""
    if seconds <= 0:
        return {}
    return {key: (one.lines - before.get(key, 0)) / seconds for key, one in after.items()}


def counts(seen: dict[str, Seen]) -> dict[str, int]:
    """The numbers of lines so far, to be kept until the next look."""
    return {key: one.lines for key, one in seen.items()}


def bounded(seen: dict[str, Seen]) -> None:
    """Forget the longest silent ones above KEPT."""
    if len(seen) > KEPT:
        silent = sorted(seen, key=lambda key: seen[key].wall_us)[: len(seen) - KEPT]
        for key in silent:
            del seen[key]
