"""One life of the server as a log tells it: its lines, and what tells it apart from others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import AbortFact, LogFact, fact_of

STOPS = ("stopping", "cleaning-up")
SLEEPS = ("enter-sleep", "exit-sleep")
CLOCKS = ("mono", "wall")
CONTAINERS = ("compose", "kubectl")  # forms in which a stream is a container's name
UNITS = (".service", ".scope", ".slice")
CHILD_EVENTS = ("child-spawned", "child-stopping", "child-killed", "child-called")


@dataclass(frozen=True)
class Child:
    """What a router's own lines say of one of its children.

    ``about`` are those lines, its end (``exit``) among them. ``asked``: the router was told to stop it, or
    made room for another model. ``code`` is the status it reports, which is 1 for every death by a signal.
    """

    name: str | None = None
    port: str | None = None
    about: tuple[Evidence, ...] = ()
    exit: Evidence | None = None
    code: int | None = None
    asked: bool = False

    @property
    def died(self) -> bool:
        """It ended, nobody had asked for it, and not with a clean status."""
        return self.exit is not None and not self.asked and self.code != 0


@dataclass(frozen=True)
class Life:
    """The log evidence of one process, in order.

    ``name`` is the input's, ``stream`` the unit, container or syslog tag inside it, ``form`` the wrapper's
    form (``Prefix.form``, or "journal"). A router's child has its ``port``, what the router says of it as
    ``child``, and as ``carrier`` the PID by which a journal knows the router.
    """

    items: tuple[Evidence, ...]
    name: str = ""
    stream: str = ""
    port: str | None = None
    form: str | None = None
    carrier: int | None = None
    child: Child | None = None

    @property
    def ids(self) -> frozenset[str]:
        about = self.child.about if self.child else ()
        return frozenset(item.id for item in (*self.items, *about))

    @property
    def who(self) -> Incarnation:
        return next((i.incarnation for i in self.items if i.incarnation != Incarnation()), Incarnation())

    @property
    def pid(self) -> int | None:
        return next((item.incarnation.pid for item in self.items if item.incarnation.pid is not None), None)

    @property
    def listens(self) -> int | None:
        """The TCP port it printed that it listens on, or by which its router calls it."""
        facts = (fact_of(item, LogFact) for item in self.items if item.trust is not Trust.CLIENT)
        ports = [int(f.value) for f in facts if f is not None and f.event == "listening" and f.value]
        return int(self.port) if self.port else ports[-1] if ports else None

    @property
    def routes(self) -> bool:
        """True for a router: it speaks of its children."""
        return self.port is None and self.has(CHILD_EVENTS)

    @property
    def aborted(self) -> bool:
        return any(item.kind == AbortFact.KIND for item in self.items)

    @property
    def stopped(self) -> bool:
        return self.has(STOPS)

    @property
    def slept(self) -> bool:
        return self.has(SLEEPS, trusted=True)

    @property
    def lane(self) -> tuple[str, str, str | None]:
        """Lives of one lane follow each other; those of different lanes may run at the same time."""
        return self.name, self.stream, self.port

    @property
    def names_unit(self) -> bool:
        """True when ``stream`` is something a supervisor's line would call by the same name."""
        return self.form in CONTAINERS or self.stream.partition("[")[0].endswith(UNITS)

    def is_of(self, unit: str) -> bool:
        """True when ``unit`` is this life's unit or container.

        ``pod/container`` goes by both names; some versions of compose put the project before the container.
        """
        stream = self.stream.partition("[")[0]
        if not self.names_unit or not stream:
            return False
        project = self.form == "compose" and unit.endswith((f"-{stream}", f"_{stream}"))
        return project or unit in (stream, stream.rpartition("/")[2])

    def has(self, events: Sequence[str], trusted: bool = False) -> bool:
        """True when a log line of one of ``events`` is in it."""
        items = (i for i in self.items if not trusted or i.trust is not Trust.CLIENT)
        facts = (fact_of(item, LogFact) for item in items)
        return any(fact is not None and fact.event in events for fact in facts)

    def began(self, clock: str) -> float | None:
        return next(iter(self._stamps(clock)), None)

    def ended(self, clock: str) -> float | None:
        """The stamp of its last line."""
        return max(self._stamps(clock), default=None)

    def _stamps(self, clock: str) -> list[float]:
        stamps = (getattr(item, clock) for item in self.items)
        return [stamp for stamp in stamps if stamp is not None]


def follows(later: Life, life: Life, clock: str) -> bool:
    """True when ``later`` began in the same lane after the last line of ``life``: no worker beside it."""
    began, ended = later.began(clock), life.ended(clock)
    return later.lane == life.lane and began is not None and ended is not None and began >= ended
