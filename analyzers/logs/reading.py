"""What a reader hands over: evidence, the lives (process incarnations) found, counts and gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.report import Gap


@dataclass(frozen=True)
class Life:
    """One process incarnation as one stream of lines shows it, in the order of the lines.

    ``stream`` names it inside the input (container, unit or ``""``; a router child adds ``[port]``).
    What a router's child prints reaches a journal through the router: the wrapper's PID is then the router's,
    ``carrier``, and the child's own stays unknown. ``counts`` holds every telling line by event, also those
    whose evidence was not kept. ``skipped`` is how many telling lines have no evidence here (only the first
    and last of each group do).
    ``last_elapsed`` and ``last_wall`` are the latest stamps seen on a telling line.
    """

    index: int
    stream: str = ""
    port: str | None = None
    carrier: int | None = None
    incarnation: Incarnation = field(default_factory=Incarnation)
    era: str | None = None
    evidence: tuple[Evidence, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    first_line: int = 0
    last_line: int = 0
    last_elapsed: float | None = None
    last_wall: float | None = None
    verbosity: int | None = None
    head_lost: bool = False  # no line of its start was seen
    restarted_in_place: bool = False  # the same PID as the life before it
    cancelled_asleep: int = 0  # ``cancel task`` lines between entering and exiting sleeping state


@dataclass(frozen=True)
class Reading:
    """Everything one text input yields. ``evidence`` is all of it, lives and outside facts, by line."""

    name: str
    kind: str  # log | kernel | journal-export | journal-json
    evidence: tuple[Evidence, ...] = ()
    lives: tuple[Life, ...] = ()
    outside: tuple[Evidence, ...] = ()  # kernel, supervisor, router and shell facts
    gaps: tuple[Gap, ...] = ()
    lines: int = 0
    bytes: int = 0
    era: str | None = None
    form: str | None = None  # wrapper form, see prefix.Prefix
    reversed: bool = False
    process_starts: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
