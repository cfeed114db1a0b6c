"""What the states' room takes in and hands out. Times: ``wall`` Unix seconds, ``mono`` CLOCK_MONOTONIC."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_STRANDED_SECONDS = 10.0
DEFAULT_HUNG_SECONDS = 30.0
MAX_TRANSITIONS = 64  # of one server, kept: some hours of a thrashing one, days of a calm one
# A line and the act it names, a probe's question and its answer lie less than this apart.
SETTLED_SECONDS = 1.0


@dataclass(frozen=True)
class Knobs:
    """The operator's figures: T of a stranded request, T of a hang, seconds."""

    stranded: float = DEFAULT_STRANDED_SECONDS
    hung: float = DEFAULT_HUNG_SECONDS


@dataclass(frozen=True)
class Now:
    """One moment on both clocks."""

    wall: float
    mono: float


@dataclass(frozen=True)
class Transition:
    """One change of state: why, and the ids of the evidence that decided."""

    old: str | None
    new: str
    wall: float
    mono: float
    reason: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Duration:
    """Seconds that something took, known to ``precision`` seconds (the time between two looks)."""

    seconds: float
    precision: float


@dataclass(frozen=True)
class Counters:
    """Totals of one incarnation since it was first seen. ``asleep_seconds`` includes the sleep under way."""

    sleeps: int = 0
    wakes: int = 0
    asleep_seconds: float = 0.0
    last_unload: Duration | None = None
    last_wake: Duration | None = None


@dataclass(frozen=True)
class Pulse:
    """One cheap look at the process: /proc/PID/stat, and status where that hints at a death.

    ``cpu_seconds`` user and system time, ``faults`` major page faults so far, ``state`` the kernel's letter,
    ``dumping`` the kernel writes its core, ``tracer`` a PID or 0.
    """

    mono: float
    state: str
    cpu_seconds: float
    faults: int = 0
    dumping: bool = False
    tracer: int = 0


@dataclass(frozen=True)
class Waiting:
    """One client whose request the server holds: whose last word came ``quiet`` seconds ago. ``socket``: the
    kernel's cookie of the connection, ``evidence`` the id of its figures."""

    socket: int
    quiet: float
    peer: str
    evidence: str


@dataclass(frozen=True)
class Crowd:
    """The clients of one server at one look. ``moved``: bytes went over some connection since the look
    before; ``waiting`` have asked and got nothing back; ``stuck`` are those that waited out the patience and
    whose request the threads are not reading any more; ``unsure`` says what could not be seen."""

    mono: float
    clients: int = 0
    moved: bool = False
    waiting: tuple[Waiting, ...] = ()
    stuck: tuple[Waiting, ...] = ()
    unsure: str | None = None


@dataclass(frozen=True)
class StateView:
    """One server as it is: an id of analyzers.contracts.registry.STATES and since when, and what decided.

    ``notes`` name conflicts, what is not known and why; ``stranded`` the clients that nothing will answer.
    """

    state: str
    since_wall: float
    since_mono: float
    reason: str
    evidence: tuple[str, ...] = ()
    transitions: tuple[Transition, ...] = ()
    counters: Counters = Counters()
    notes: tuple[str, ...] = ()
    stranded: tuple[Waiting, ...] = ()
