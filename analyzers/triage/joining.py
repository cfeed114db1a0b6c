"""Several deaths over several inputs: each fact to the death that it is about, and to no other.

The deaths are the cores and what texts tell one by one. Records of one death are joined (``relations``); then
every loose log and fact goes where identity, a port or a clock puts it, when that is one place. What fits two
places goes to neither and is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import (
    CoreFact,
    ExitFact,
    KernelFact,
    LoopFact,
    MarkFact,
    PointerFact,
    StackFact,
    fact_of,
)
from analyzers.contracts.report import Gap, Process
from analyzers.contracts.watched import HostFact
from analyzers.triage.clocks import wall_steps
from analyzers.triage.faults import SERVER, named_in
from analyzers.triage.homes import homes_of_lives
from analyzers.triage.lives import CLOCKS
from analyzers.triage.material import Material
from analyzers.triage.readers.deaths import OneOfSeveral, only_death, several
from analyzers.triage.relations import (
    NEAR_S,
    Same,
    distance,
    fits,
    may_be_one,
    names,
    same_death,
)
from analyzers.triage.subjects import Open, dying_lives, ends_of, opened, told_by_the_kernel
from analyzers.verdict.ending import HOST_SHAPES

# A supervisor tells of an end once the core is written: 2 GB took 4 s here, a big one takes minutes.
DUMP_S = 120.0
# Deaths of one PID that are compared with each other, each with each; a core beside more of them joins none.
USES_OF_A_PID = 64
# What is read in a core: twice the same where two bundles, or a bundle and the core, are of one death.
OF_A_CORE = (CoreFact.KIND, StackFact.KIND, LoopFact.KIND, PointerFact.KIND, MarkFact.KIND)
EACH_ALONE = "give one core at a time, each with its own log"


def deaths(materials: Sequence[Material], known: Sequence[Open] = ()) -> tuple[list[Open], list[Gap]] | None:
    """The incidents of the inputs when they are several, and the gaps that belong to none; else None.

    ``known`` are those that bundles tell of, each with all that its bundle holds.
    """
    parts = [part for material in materials for part in _split(material)]
    found: list[Open] = []
    loose: list[Material] = []
    ready = {id(one) for one in known}
    seeds = [*known, *_seeds(parts)] or told_by_the_kernel(parts)
    torn = _torn(seeds)
    for seed in sorted(seeds, key=lambda one: (one.core is None, id(one) in torn, one.who.pid is None)):
        answers = [(one, same_death(seed, one)) for one in found if may_be_one(seed, one)]
        same = [one for one, answer in answers if answer is Same.YES and not {id(one), id(seed)} & torn]
        fits_none = all(answer is Same.NO for _, answer in answers)
        named = seed.who.pid is not None and id(seed) not in torn
        if len(same) == 1:
            _absorb(same[0], seed)
        elif id(seed) in ready or (not same and (seed.core is not None or named or fits_none)):
            found.append(seed)
        else:
            loose.append(
                Material(evidence=tuple(seed.evidence), gaps=tuple(seed.gaps), lives=tuple(seed.lives))
            )
    if len(found) < 2 and len(known) < 2:
        return None
    every = [item for part in parts for item in part.evidence]
    every += [item for one in known for item in one.evidence]
    gaps = [*_trusted_clocks(found, every), *_perhaps_one(found)]
    gaps += _join(found, [*loose, *_rest(parts, found, loose)], parts)
    return found, gaps


def _torn(seeds: Sequence[Open]) -> set[int]:
    """Ids of those that are one with either of two deaths which are not one: a PID that was used again, and
    no clock or boot tells which of both. They join neither, whatever the order of the inputs."""
    by_pid: dict[int | None, list[Open]] = defaultdict(list)
    for seed in seeds:
        by_pid[seed.who.pid].append(seed)
    unnamed = by_pid.pop(None, [])
    rows: list[tuple[Open, Sequence[Open]]] = [
        (seed, near) for near in by_pid.values() for seed in near if len(near) > 2
    ]
    rows += [(seed, seeds) for seed in unnamed if seed.counts_apart]
    return {id(seed) for seed, near in rows if _fits_two(seed, near)}


def _fits_two(seed: Open, near: Sequence[Open]) -> bool:
    if len(near) > USES_OF_A_PID and seed.who.pid is not None:
        return seed.core is not None
    same = [one for one in near if one is not seed and same_death(seed, one) is Same.YES]
    return any(same_death(one, other) is Same.NO for one, other in combinations(same[:USES_OF_A_PID], 2))


def _trusted_clocks(found: Sequence[Open], every: Sequence[Evidence]) -> Iterator[Gap]:
    """Tells each incident by which clocks it may be joined; a gap where the wall clock is none of them."""
    steps = wall_steps(every)
    boots = {item.incarnation.boot_id for item in every} - {None}
    for incident in found:
        incident.clocks = CLOCKS if not steps else tuple(clock for clock in CLOCKS if clock != "wall")
        incident.one_boot = len(boots) < 2
    if steps:
        yield Gap(
            what="what only the wall clock could join",
            why=f"that clock jumped by {steps[0].seconds:+.3f} s before {steps[0].source} (it was set, or "
            "the machine was suspended); nothing was joined by it",
            command="journalctl -o export: its entries name CLOCK_MONOTONIC too",
        )


def _perhaps_one(found: Sequence[Open]) -> Iterator[Gap]:
    """A core that names no process of the host's, or one whose PID was used again, beside deaths that no core
    is known of."""
    cores = [one for one in found if one.core is not None]
    others = [one for one in found if one.core is None]
    pairs = [
        (one, other)
        for one in cores
        for other in others
        if (one.who.pid is None or may_be_one(one, other)) and same_death(one, other) is not Same.NO
    ]
    for one in {id(one): one for one, _ in pairs}.values():
        name = one.evidence[0].source.partition(":")[0] if one.evidence else "a core"
        yield Gap(
            what=f"whether {name} is the core of one of the other incidents",
            why=(_OF_A_CONTAINER if one.who.pid is None else _USED_AGAIN) + "; it is counted by itself",
            command="coredumpctl info PID > record.txt",
        )


_OF_A_CONTAINER = (
    "it does not name the process as the host does (a container counts its own), and no clock ties it"
)
_USED_AGAIN = "its PID was used by more than one of them, and neither a boot nor a clock tells by which"


def _split(material: Material) -> list[Material]:
    """A bundle's texts were not split by their reader."""
    return [material] if material.anchor or isinstance(material, OneOfSeveral) else several(material)


def _seeds(parts: Sequence[Material]) -> Iterator[Open]:
    cores = any(part.core is not None for part in parts)
    for part in parts:
        if part.anchor:
            yield opened(part)
        elif not isinstance(part, OneOfSeveral):
            told = list(_of_text(part))
            yield from told or (() if cores else _by_its_supervisor(part))


def _by_its_supervisor(material: Material) -> Iterator[Open]:
    """A text that tells of one life and of its end, which names no process. Beside a core it may be the
    core's own, and the old rules tie it."""
    found = only_death(material)
    if found is not None:
        life, items = found
        yield Open(who=life.who, evidence=items, lives=[life], process=_process(material, life.pid))


def _of_text(material: Material) -> Iterator[Open]:
    """The deaths of a text that names their process, or whose server said its last words."""
    taken = set()
    for life, who in dying_lives(material):
        taken.add(who.pid)
        own = [item for item in material.evidence if item.id in life.ids]
        yield Open(who=who, evidence=own, lives=[life], process=_process(material, who.pid))
    for item in ends_of(material.evidence):
        pid = item.incarnation.pid
        if pid is not None and pid not in taken and item.kind == ExitFact.KIND:
            taken.add(pid)
            yield Open(who=item.incarnation, evidence=[item], process=_process(material, pid))


def _process(material: Material, pid: int | None) -> Process:
    return material.process if material.process.pid == pid else Process(pid=pid)


def _absorb(home: Open, seed: Open) -> None:
    known = {item.id for item in home.evidence}
    two = home.core is not None and seed.core is not None  # copies of a core differ in what they lack
    read = {_content(item) for item in home.evidence if item.kind in OF_A_CORE and not two}
    home.evidence += [item for item in seed.evidence if item.id not in known and _content(item) not in read]
    home.gaps += seed.gaps
    home.lives += [life for life in seed.lives if life not in home.lives]
    home.tids |= seed.tids
    home.core = home.core or seed.core
    told, mine = (
        one.model_dump(exclude_none=True, exclude_defaults=True) for one in (seed.process, home.process)
    )
    home.process = Process.model_validate({**told, **mine})
    home.who = home.who.model_copy(
        update={
            key: value
            for key, value in seed.who.model_dump().items()
            if getattr(home.who, key) is None and value is not None
        }
    )


def _content(item: Evidence) -> tuple[str, str, str]:
    return item.kind, item.text, repr(item.data)


def _rest(parts: Sequence[Material], found: Sequence[Open], loose: Sequence[Material]) -> list[Material]:
    """The materials without what the deaths already own."""
    owned = {item.id for one in found for item in one.evidence}
    owned |= {item.id for material in loose for item in material.evidence}
    told = [life for lives in (*(o.lives for o in found), *(m.lives for m in loose)) for life in lives]
    rest = []
    for part in parts:
        if not part.anchor:
            items = tuple(item for item in part.evidence if item.id not in owned)
            lives = tuple(life for life in part.lives if not any(life is one for one in told))
            rest.append(Material(items, part.gaps, part.process, None, part.inputs, lives=lives))
    return rest


def _join(found: Sequence[Open], materials: Sequence[Material], parts: Sequence[Material]) -> list[Gap]:
    gaps = [gap for material in materials for gap in material.gaps]
    lives = [life for material in materials for life in material.lives]
    for material in materials:
        for incident in found:
            incident.process = _told(incident.process, material.process)
    for item in [item for material in materials for item in _of_no_life(material)]:
        if (homes := _named(item, found)) and len(homes) == 1:
            homes[0].evidence.append(item)
    placed = {item.id for one in found for item in one.evidence}
    every = {item.id: item for material in materials for item in material.evidence}
    for life, home in homes_of_lives(lives, found):
        home.lives.append(life)
        home.evidence += [item for id_, item in every.items() if id_ in life.ids - placed]
        placed |= life.ids
    for part in parts:
        placed |= _with_traces(part, found, placed)
    for material in materials:
        left = list(_place(material, found, placed))
        if left:
            gaps.append(_homeless(material, left))
    return gaps


def _with_traces(part: Material, found: Sequence[Open], placed: set[str]) -> set[str]:
    """A trace that a server printed into its log goes with the log, where that is of one life."""
    homes = [one for one in found for life in one.lives if len(part.lives) == 1 and life is part.lives[0]]
    traces = [item for item in part.evidence if _self_printed(item) and item.id not in placed]
    for item in traces if homes else ():
        homes[0].evidence.append(item)
    return {item.id for item in traces} if homes else set()


def _self_printed(item: Evidence) -> bool:
    own = item.kind == StackFact.KIND or item.data.get("by") == "trace"
    return own and item.trust is not Trust.CLIENT


def _told(process: Process, told: Process) -> Process:
    """What a bundle's manifest knows of this very process."""
    if told.pid is None or process.pid != told.pid:
        return process
    more, mine = (one.model_dump(exclude_none=True, exclude_defaults=True) for one in (told, process))
    return Process.model_validate({**more, **mine})


def _of_no_life(material: Material) -> Iterator[Evidence]:
    of_lives = {id_ for life in material.lives for id_ in life.ids}
    return (item for item in material.evidence if item.id not in of_lives)


def _named(item: Evidence, found: Sequence[Open]) -> list[Open]:
    return [one for one in found if names(item, one) and fits(item, one)]


def _place(material: Material, found: Sequence[Open], placed: set[str]) -> Iterator[Evidence]:
    """Joins the material's loose facts; yields those that have no home."""
    lost = {id_ for life in material.lives if not life.ids & placed for id_ in life.ids}
    routers = {id_ for life in material.lives if life.routes for id_ in life.ids}
    for item in material.evidence:
        if item.id in placed or item.id in routers:
            continue
        homes = [] if item.id in lost else _homes(item, found)
        for home in homes:
            home.evidence.append(item)
            placed.add(item.id)
        if not homes:
            yield item


def _homes(item: Evidence, found: Sequence[Open]) -> list[Open]:
    if _about_the_host(item):
        return [one for one in found if _of_its_host(item, one)]
    named = _named(item, found)
    near = named or [one for one in found if fits(item, one) and _close(item, one)]
    return near if len(near) == 1 else []


def _about_the_host(item: Evidence) -> bool:
    """What befell the whole machine befell every server on it."""
    kernel = fact_of(item, KernelFact)
    return item.kind == HostFact.KIND or (kernel is not None and kernel.shape in HOST_SHAPES)


def _of_its_host(item: Evidence, incident: Open) -> bool:
    """A reboot ended one process that its fact names; the kernel names a thread of anybody's."""
    who = item.incarnation
    return incident.who.same_as(who if item.kind == HostFact.KIND else who.model_copy(update={"pid": None}))


def _close(item: Evidence, incident: Open) -> bool:
    """A clock puts it at the end: the kernel's word at once, a supervisor's when the core is written."""
    at = distance(item, incident)
    if at is None or item.kind not in (ExitFact.KIND, KernelFact.KIND):
        return False
    fact = fact_of(item, ExitFact)
    if fact is None:
        return named_in(item) is None or (not incident.tids and abs(at) <= NEAR_S)
    if fact.signal and incident.signal and fact.signal != incident.signal:
        return False
    return _of_its_unit(fact, incident) and -NEAR_S <= at <= DUMP_S


def _of_its_unit(fact: ExitFact, incident: Open) -> bool:
    """A supervisor's word about a unit needs that unit: by the log, by another record of the death, or by a
    name that is the server's. Other units end within the same two minutes."""
    if fact.unit is None:
        return True
    units = [life for life in incident.lives if life.names_unit]
    told = {end.unit for item in incident.evidence if (end := fact_of(item, ExitFact)) is not None} - {None}
    if units or told:
        return fact.unit in told or any(life.is_of(fact.unit) for life in units)
    return SERVER.search(fact.unit) is not None


def _homeless(material: Material, left: Iterable[Evidence]) -> Gap:
    items = list(left)
    name = material.inputs[0].name if material.inputs else items[0].source.partition(":")[0]
    return Gap(
        what=f"{len(items)} facts of {name}",
        why="they do not say to which of these incidents they belong, so they were not counted",
        command=EACH_ALONE,
    )
