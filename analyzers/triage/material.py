"""What the readers hand to the grouping: evidence, gaps, and what was learnt about the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap, Host, InputFile, Process
from analyzers.triage.lives import Life


def numbering() -> Callable[[], str]:
    """E1, E2, …: ids of one report."""
    numbers = count(1)
    return lambda: f"E{next(numbers)}"


@dataclass(frozen=True)
class CoreWork:
    """A core whose verdict is out and that gdb may still be asked about."""

    path: Path
    exe: Path | None
    loop_tid: int | None = None


@dataclass(frozen=True)
class Material:
    """What one input gave. ``anchor`` is True for a core: it opens an incident of its own. ``bundle`` names
    the bundle that it is a part of, None outside one: what was gathered of one death belongs together.
    ``apart``: the core's numbers are a container's own, not the host's.
    """

    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()
    process: Process = field(default_factory=Process)
    host: Host | None = None
    inputs: tuple[InputFile, ...] = ()
    secrets: tuple[str, ...] = ()
    anchor: bool = False
    lives: tuple[Life, ...] = ()
    tids: frozenset[int] = frozenset()
    core: CoreWork | None = None
    bundle: str | None = None
    apart: bool = False
