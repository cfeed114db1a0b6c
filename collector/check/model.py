"""What a check finds: one server's findings and the verdict they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum

SCHEMA = "llama-blackbox/check/1"
READY, AT_RISK, BLIND = "ready", "at-risk", "blind"
WORDS = {READY: "ready", AT_RISK: "at risk", BLIND: "blind"}
CORE, TIME, LOG, LIVE = "core", "time", "log", "live"


class Level(str, Enum):
    """How much a finding costs. ``unread``: could not be looked at, so nothing is promised."""

    LOST = "lost"
    RISK = "risk"
    UNREAD = "unread"
    NOTE = "note"
    OK = "ok"

    @property
    def costs(self) -> bool:
        return self in (Level.LOST, Level.RISK, Level.UNREAD)


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``about``: core | time | log | live. ``change`` names the setting and its file, or
    the command that reads what could not be read; ``present`` is the value there is now."""

    id: str
    about: str
    level: Level
    what: str
    why: str
    change: str | None = None
    present: str | None = None


@dataclass(frozen=True)
class Expected:
    """The core that a crash now would give. ``size`` bytes as a handler reads it, ``written`` bytes that are
    not holes, ``seconds`` the process would keep dying, by rates measured elsewhere."""

    size: int
    written: int
    seconds: float


@dataclass(frozen=True)
class Readiness:
    """One server: what a crash of it would leave behind."""

    pid: int
    name: str
    unit: str | None
    container: str | None
    destination: str
    expected: Expected | None
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """``blind``: no core would be taken. ``at-risk``: something would be lost, cut, or was not seen."""
        if any(one.about == CORE and one.level is Level.LOST for one in self.findings):
            return BLIND
        return AT_RISK if any(one.level.costs for one in self.findings) else READY

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        worst = worst_first(self.findings)
        if self.verdict == READY:
            return f"a core would be taken, whole, {self.destination}"
        others = sum(one.level.costs for one in worst) - 1
        more = f" (and {others} more)" if others else ""
        return f"{'no core would be taken: ' if self.verdict == BLIND else ''}{worst[0].what}{more}"

    def to_json(self) -> dict[str, object]:
        return {
            "pid": self.pid,
            "name": self.name,
            "unit": self.unit,
            "container": self.container,
            "verdict": self.verdict,
            "headline": self.headline,
            "destination": self.destination,
            "expected": asdict(self.expected) if self.expected else None,
            "findings": [{**asdict(one), "level": one.level.value} for one in worst_first(self.findings)],
        }


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """Lost before risk before unread; of one level the core's first, else in the order of looking."""
    levels = list(Level)
    return sorted(findings, key=lambda one: (levels.index(one.level), one.about != CORE))


def size_text(size: float) -> str:
    """``1.2 GiB``."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
