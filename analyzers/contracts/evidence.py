"""Evidence: one immutable observed fact, with where it came from and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Trust(str, Enum):
    """Who could have written this fact, from hardest to easiest to forge."""

    KERNEL = "kernel-set"
    SUPERVISOR = "supervisor-set"
    SERVER = "server-printed"
    CLIENT = "client-controllable"

    @property
    def rank(self) -> int:
        """0 for the hardest to forge; used to prefer one source over another."""
        return list(Trust).index(self)


class Incarnation(BaseModel):
    """One life of one process. PIDs are reused, so the start time and the boot belong to the name."""

    model_config = ConfigDict(frozen=True, extra="allow")

    pid: int | None = None
    start_time: float | None = Field(default=None, description="seconds since boot")
    boot_id: str | None = None

    def same_as(self, other: Incarnation) -> bool:
        """True unless a part that both name differs; an unnamed part never contradicts."""
        pairs = (
            (self.pid, other.pid),
            (self.start_time, other.start_time),
            (_bare(self.boot_id), _bare(other.boot_id)),
        )
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in pairs)


def _bare(boot_id: str | None) -> str | None:
    """The kernel writes a boot id with dashes, the journal without."""
    return boot_id.replace("-", "").lower() if boot_id else None


class Evidence(BaseModel):
    """One observed fact.

    ``kind`` names the type in ``analyzers.contracts.facts`` that ``data`` was made from; kinds this
    version does not know are kept and shown. Times: ``wall`` is Unix seconds, ``mono`` is seconds of
    CLOCK_MONOTONIC of that boot, ``elapsed`` is seconds since the server's own logger started.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    kind: str
    source: str = Field(description="input name, with a line or note where that helps")
    text: str = Field(description="one readable line, already free of secrets and prompts")
    trust: Trust
    wall: float | None = None
    mono: float | None = None
    elapsed: float | None = None
    incarnation: Incarnation = Incarnation()
    data: Mapping[str, Any] = Field(default_factory=dict)
