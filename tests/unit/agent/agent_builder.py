"""Servers, facts and clocks for the agent's tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import to_evidence
from collector.agent.deaths.book import Clock
from collector.discovery.model import Found, Listening, Place

BOOT = "0123456789abcdef0123456789abcdef"
_numbers = iter(range(1, 1_000_000))


@dataclass
class Time:
    """A clock that stands still until it is moved."""

    now: float = 1000.0

    def mono(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1_700_000_000 + self.now

    def clock(self) -> Clock:
        return Clock(wall=self.wall, mono=self.mono)


def server(pid: int = 7, start: float = 1.0, **more: Any) -> Found:
    values: dict[str, Any] = {
        "role": "standalone",
        "listening": (Listening(port=8080),),
        "place": Place(unit="llama.service"),
        **more,
    }
    return Found(Incarnation(pid=pid, start_time=start, boot_id=BOOT), "/usr/bin/llama-server", **values)


def fact(payload: Any, trust: Trust = Trust.KERNEL, pid: int | None = 7, mono: float = 1000.0) -> Evidence:
    return to_evidence(
        payload,
        id=f"fact-{next(_numbers)}",
        source="test",
        text=type(payload).__name__,
        trust=trust,
        wall=1_700_000_000 + mono,
        mono=mono,
        incarnation=Incarnation(pid=pid, boot_id=BOOT),
    )
