"""Several deaths in one text, each as a material of its own.

A supervisor's text of a server that restarts tells of every death. What a death owns follows from the order
of the lines, the units and the PIDs; where these leave two lives to choose from, the line stays nobody's, and
a text without two deaths stays one material, of which the verdict reads one life.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, KernelFact, fact_of
from analyzers.contracts.report import Gap, Process
from analyzers.triage.dying import deaths_in
from analyzers.triage.faults import HOSTS, SERVER, SHARED, foreign_record, named_in
from analyzers.triage.lives import Life
from analyzers.triage.material import Material

MAX_DEATHS = 48  # of one text: as many lives as a reader keeps of one that restarts all day
OUTSIDE = (ExitFact.KIND, KernelFact.KIND)
FAILED = "Failed with result"  # systemd's words behind an end; the same result before one is its reason
FOREWARNED = ("watchdog", "oom-kill", "timeout", "stopping")  # results told before the end they lead to


@dataclass(frozen=True)
class OneOfSeveral(Material):
    """A death of a text that tells of several, or (no ``anchor``) what is left of the text beside them.

    ``whole`` is the text as one material: what counts beside inputs that name the death in question.
    """

    whole: Material | None = None


def settled(materials: Sequence[Material]) -> list[Material]:
    """The deaths of texts where nothing else was given, else each such text whole.

    A core or a kernel log beside them is about one of the deaths, and its own rules find out which. The same
    process in two texts is one death. Raises nothing.
    """
    parts = [one for one in materials if isinstance(one, OneOfSeveral)]
    if not parts:
        return list(materials)
    if any(one.evidence for one in materials if not isinstance(one, OneOfSeveral)):
        return _whole(materials)
    opened: list[Material] = []
    for part in (one for one in parts if one.anchor):
        at = next((n for n, known in enumerate(opened) if _same_process(known, part)), None)
        if at is None:
            opened.append(part)
        else:
            opened[at] = _both(opened[at], part)
    return [*opened, *(one for one in materials if not one.anchor)]


def _whole(materials: Sequence[Material]) -> list[Material]:
    found: list[Material] = []
    for one in materials:
        whole = one.whole if isinstance(one, OneOfSeveral) else one
        if whole is not None and not any(whole is known for known in found):
            found.append(whole)
    return found


def _same_process(one: Material, other: Material) -> bool:
    mine, theirs = one.process, other.process
    return mine.pid is not None and mine.pid == theirs.pid and _named(mine).same_as(_named(theirs))


def _named(process: Process) -> Incarnation:
    return Incarnation(pid=process.pid, start_time=process.start_time, boot_id=process.boot_id)


def _both(known: Material, more: Material) -> Material:
    told = more.process.model_dump(exclude_none=True, exclude_defaults=True)
    mine = known.process.model_dump(exclude_none=True, exclude_defaults=True)
    return replace(
        known,
        evidence=(*known.evidence, *more.evidence),
        gaps=(*known.gaps, *more.gaps),
        lives=(*known.lives, *more.lives),
        process=Process.model_validate({**told, **mine}),
    )


def several(material: Material) -> list[Material]:
    """A material for each death of a text, then what is left of it; ``material`` alone for one or none."""
    if material.anchor or any(life.port or life.routes or life.child for life in material.lives):
        return [material]  # a router's children are told apart by its own lines
    dead = _dead(material)
    return _parted(material, dead) if len(dead) > 1 else [material]


def only_death(material: Material) -> tuple[Life, list[Evidence]] | None:
    """The life of a text whose end alone the text tells, with all that the death owns; else None."""
    if material.anchor or any(life.port or life.routes or life.child for life in material.lives):
        return None
    dead = _dead(material) if material.lives else {}
    found = [(material.lives[key], items) for key, items in dead.items() if isinstance(key, int)]
    return found[0] if len(found) == len(dead) == 1 else None


def _dead(material: Material) -> dict[Hashable, list[Evidence]]:
    owners = _by_lives(material) if material.lives else _by_ends(material.evidence)
    owned: dict[Hashable, list[Evidence]] = {}
    for item in material.evidence:
        if item.id in owners:
            owned.setdefault(owners[item.id], []).append(item)
    return {key: items for key, items in owned.items() if _died(key, items, material.lives)}


def _parted(material: Material, dead: Mapping[Hashable, Sequence[Evidence]]) -> list[Material]:
    kept = list(dead.items())[-MAX_DEATHS:]
    parts: list[Material] = [_death(key, items, material) for key, items in kept]
    taken = {item.id for _, items in dead.items() for item in items}
    of_lives = {id for life in material.lives for id in life.ids}
    rest = tuple(item for item in material.evidence if item.id not in taken | of_lives)
    gaps = [*material.gaps, *_left(material, dead, len(kept))]
    return [*parts, OneOfSeveral(evidence=rest, gaps=tuple(gaps), whole=material)]


def _death(key: Hashable, items: Sequence[Evidence], material: Material) -> OneOfSeveral:
    life = material.lives[key] if isinstance(key, int) else None
    named = [item.incarnation for item in items if item.incarnation.pid is not None]
    who = life.who if life is not None and life.pid is not None else next(iter(named), Incarnation())
    return OneOfSeveral(
        evidence=tuple(items),
        process=Process(pid=who.pid, start_time=who.start_time, boot_id=who.boot_id),
        anchor=True,
        lives=(life,) if life is not None else (),
        whole=material,
    )


def _left(material: Material, dead: Mapping[Hashable, object], kept: int) -> Iterator[Gap]:
    if len(dead) > kept:
        yield Gap(
            what=f"{len(dead) - kept} earlier deaths", why=f"the last {kept} of one text are told one by one"
        )
    running = len(material.lives) - sum(isinstance(key, int) for key in dead)
    if running:
        one = material.lives[0].name
        why = f"{one} does not tell that they died, so they are no incident"
        yield Gap(what=f"{running} further lives of the server", why=why)


def _died(key: Hashable, items: Sequence[Evidence], lives: Sequence[Life]) -> bool:
    """An end that nobody asked for, or an abort's text that a restart followed."""
    if deaths_in([item for item in items if item.kind in OUTSIDE]):
        return True
    if not isinstance(key, int):
        return False
    replaced = any(later.lane == lives[key].lane for later in lives[key + 1 :])
    return lives[key].aborted and replaced


def _by_lives(material: Material) -> dict[str, Hashable]:
    """Evidence id -> number of its life, or the PID of a core record whose process printed nothing here."""
    places = {item.id: at for at, item in enumerate(material.evidence)}
    spans = [_span(life, places) for life in material.lives]
    owners: dict[str, Hashable] = {}
    for at, life in enumerate(material.lives):
        owners.update(dict.fromkeys(life.ids, at))
    for item in _outside(material.evidence, owners):
        owner = _owner(item, places[item.id], material.lives, spans)
        if owner is not None:
            owners[item.id] = owner
    return owners


def _span(life: Life, places: Mapping[str, int]) -> tuple[int, int]:
    at = [places[item.id] for item in life.items if item.id in places]
    return (min(at), max(at)) if at else (-1, -1)


def _outside(evidence: Iterable[Evidence], owners: Mapping[str, Hashable]) -> Iterator[Evidence]:
    for item in evidence:
        believed = item.trust is not Trust.CLIENT and item.kind in OUTSIDE
        if believed and item.id not in owners and not _foreign(item):
            yield item


def _foreign(item: Evidence) -> bool:
    """The kernel's or systemd-coredump's word about another program."""
    fault = named_in(item)
    if fault is None:
        return foreign_record(item)
    name, object_ = fault.name or "", fault.object or ""
    hosted = HOSTS.search(name) is not None and SHARED.search(object_) is not None
    return not (SERVER.search(name) or SERVER.search(object_) or hosted)


def _owner(
    item: Evidence, place: int, lives: Sequence[Life], spans: Sequence[tuple[int, int]]
) -> Hashable | None:
    pid = item.incarnation.pid
    if pid is not None:
        named = [
            at for at, life in enumerate(lives) if life.pid == pid and life.who.same_as(item.incarnation)
        ]
        return named[-1] if named else f"pid {pid}"
    fitting = [at for at in _of_unit(item, lives) if 0 <= spans[at][0] < place]
    running = [at for at in fitting if not _replaced(at, fitting, lives, spans)]
    return running[0] if len(running) == 1 else None


def _of_unit(item: Evidence, lives: Sequence[Life]) -> list[int]:
    fact = fact_of(item, ExitFact)
    every = list(range(len(lives)))
    if fact is None or fact.unit is None:
        return every
    own = [at for at in every if lives[at].is_of(fact.unit)]
    return own or [at for at in every if not lives[at].names_unit]


def _replaced(
    at: int, fitting: Sequence[int], lives: Sequence[Life], spans: Sequence[tuple[int, int]]
) -> bool:
    """A later life of the lane began after this one's last line; workers side by side replace nobody."""
    return any(lives[on].lane == lives[at].lane and spans[on][0] > spans[at][1] for on in fitting)


def _by_ends(evidence: Sequence[Evidence]) -> dict[str, Hashable]:
    """The same for a text of a supervisor alone: each end with the words that lead to it and follow it."""
    found = [item for item in evidence if item.trust is Trust.SUPERVISOR and not _foreign(item)]
    units = {fact.unit for item in found if (fact := fact_of(item, ExitFact)) is not None and fact.unit}
    ours = {unit for unit in units if SERVER.search(unit)}
    counted = ours if len(units) > 1 else units
    owners: dict[str, Hashable] = {}
    number: dict[str | None, int] = {}
    ended: dict[str | None, bool] = {}
    for item in found:
        fact = fact_of(item, ExitFact)
        if fact is None or (len(units) > 1 and fact.unit not in counted):
            continue
        if item.incarnation.pid is not None:
            owners[item.id] = f"pid {item.incarnation.pid}"
            continue
        end = fact.signal is not None or fact.code is not None
        if ended.get(fact.unit) and (end or _forewarns(item, fact)):
            number[fact.unit] = number.get(fact.unit, 0) + 1
            ended[fact.unit] = False
        ended[fact.unit] = ended.get(fact.unit, False) or end
        owners[item.id] = f"{fact.unit} {number.get(fact.unit, 0)}"
    return owners


def _forewarns(item: Evidence, fact: ExitFact) -> bool:
    return fact.result in FOREWARNED and FAILED not in item.text
