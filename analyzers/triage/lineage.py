"""A router's log: whose lines are whose, and which end is whose.

A router prints what its children print, behind ``[port] ``, and its own lines about them, by their models'
names. The line that spawned a child ties the two. Source of the order: server-models.cpp of b11138: a child's
last output comes before the line about its end, but the same model may be spawned again before that line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import ExitFact, LogFact, fact_of
from analyzers.contracts.report import Parent, Process
from analyzers.triage.lives import CHILD_EVENTS, Child, Life


@dataclass
class _Entry:
    name: str | None
    port: str | None = None
    about: list[Evidence] = field(default_factory=list)
    exit: Evidence | None = None
    code: int | None = None
    asked: bool = False


def with_lineage(evidence: Sequence[Evidence], lives: Sequence[Life]) -> tuple[Life, ...]:
    """The lives with what their router says of them.

    A child of which only the router speaks gets a life without lines of its own.
    """
    entries = _entries(evidence)
    if not entries or not any(life.routes or life.port is not None for life in lives):
        return tuple(lives)
    _tie_the_only_one(entries, lives)
    return _joined(lives, [_child(entry) for entry in entries])


def unpinned(evidence: Sequence[Evidence], lives: Sequence[Life]) -> tuple[Evidence, ...]:
    """The evidence with a router's lines about its children without the router's PID: they join the child."""
    about = {item.id for life in lives if life.child is not None for item in life.child.about}
    return tuple(_without_pid(item) if item.id in about else item for item in evidence)


def _without_pid(item: Evidence) -> Evidence:
    return item.model_copy(update={"incarnation": item.incarnation.model_copy(update={"pid": None})})


def as_its_own(items: Sequence[Evidence], life: Life | None) -> list[Evidence]:
    """The items of the chosen life, with its router's lines on its own clock and a planned end as such."""
    if life is None or life.child is None:
        return list(items)
    child = life.child
    spawned = next((item for item in child.about if item.data.get("event") == "child-spawned"), None)
    start = spawned.elapsed if spawned is not None else None
    about = {item.id for item in child.about}
    return [_moved(item, start, child.asked) if item.id in about else item for item in items]


def _entries(evidence: Iterable[Evidence]) -> list[_Entry]:
    """The children in the order in which the router first speaks of them."""
    entries: list[_Entry] = []
    for item in evidence:
        log, end = fact_of(item, LogFact), fact_of(item, ExitFact)
        if item.trust is Trust.CLIENT:
            continue
        if log is not None and log.event in CHILD_EVENTS and log.port is None:
            _heard(entries, log, item)
        elif end is not None and end.by == "router":
            _ended(entries, end, item)
    return entries


def _heard(entries: list[_Entry], fact: LogFact, item: Evidence) -> None:
    running = [entry for entry in entries if entry.exit is None and entry.name == fact.child_name]
    entry = running[-1] if running else None
    if fact.child_port is not None:
        entry = next((each for each in running if each.port == fact.child_port), None)
    if entry is None or fact.event == "child-spawned":
        entry = _Entry(fact.child_name, fact.child_port)
        entries.append(entry)
    entry.about.append(item)
    entry.asked = entry.asked or fact.event in ("child-stopping", "child-killed")


def _ended(entries: list[_Entry], fact: ExitFact, item: Evidence) -> None:
    """The oldest one of that name: a new one may run already when the old one's end is told."""
    running = [entry for entry in entries if entry.exit is None and entry.name == fact.unit]
    entry = running[0] if running else _Entry(fact.unit)
    if not running:
        entries.append(entry)
    entry.exit, entry.code = item, fact.code
    entry.about.append(item)


def _tie_the_only_one(entries: Sequence[_Entry], lives: Sequence[Life]) -> None:
    """A log that begins late names one child by its lines and one by its end: they are the same."""
    ports = {life.port for life in lives if life.port is not None}
    free = ports - {entry.port for entry in entries}
    loose = [entry for entry in entries if entry.port is None]
    if len(ports) == len(free) == len(loose) == len(entries) == 1:
        loose[0].port = free.pop()


def _child(entry: _Entry) -> Child:
    return Child(entry.name, entry.port, tuple(entry.about), entry.exit, entry.code, entry.asked)


def _moved(item: Evidence, start: float | None, asked: bool) -> Evidence:
    """A child's clock starts some milliseconds after the line that spawned it: so much too late is this."""
    elapsed = round(item.elapsed - start, 6) if item.elapsed is not None and start is not None else None
    data = {**item.data, "requested": True} if item.kind == ExitFact.KIND and asked else item.data
    return item.model_copy(update={"elapsed": elapsed, "data": data})


def _joined(lives: Sequence[Life], children: Sequence[Child]) -> tuple[Life, ...]:
    """Each child with the life of its port: the first with the first where a port was used again."""
    made = list(lives)
    for child in children:
        at = next((n for n, life in enumerate(made) if life.child is None and _is(life, child)), None)
        if at is None:
            made.append(_without_lines(made, child))
        else:
            made[at] = replace(made[at], child=child)
    return tuple(made)


def _is(life: Life, child: Child) -> bool:
    return life.port is not None and life.port == child.port


def _without_lines(lives: Sequence[Life], child: Child) -> Life:
    router = next((life for life in lives if life.routes), lives[0])
    return replace(router, items=(), port=child.port, child=child)


def with_life(process: Process, life: Life | None, lives: Sequence[Life]) -> Process:
    """The process with what its log and its router's tell: role, port, model's name, parent."""
    if life is None:
        return process
    router = next((each for each in lives if each.routes and each.name == life.name), None)
    found: dict[str, object] = {
        "port": process.port if process.port is not None else life.listens or _port_of(life.child),
        "role": process.role or ("child" if _routed(life) else "router" if life.routes else None),
    }
    if _routed(life):
        found["parent"] = _parent(process.parent or Parent(), life, router)
        name = process.model.name or (life.child.name if life.child else None)
        found["model"] = process.model.model_copy(update={"name": name})
    return process.model_copy(update=found)


def _parent(known: Parent, life: Life, router: Life | None) -> Parent:
    told = {"pid": life.carrier, "port": router.listens if router else None}
    return known.model_copy(update={key: value for key, value in told.items() if getattr(known, key) is None})


def _routed(life: Life) -> bool:
    return life.port is not None or life.child is not None


def _port_of(child: Child | None) -> int | None:
    return int(child.port) if child is not None and child.port else None
