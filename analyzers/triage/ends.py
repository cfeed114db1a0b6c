"""Which ends are this life's: what a supervisor, the kernel or a core record says of one end may be about
another unit, another program, another boot, or the life before or after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.facts import CoreFact, ExitFact, KernelFact, StackFact, fact_of
from analyzers.contracts.report import Gap
from analyzers.triage.days import begins_after, begins_before
from analyzers.triage.dying import deaths_in, muted
from analyzers.triage.faults import SERVER, foreign_record, named_in
from analyzers.triage.lives import CLOCKS, Life

OUTSIDE = (ExitFact.KIND, KernelFact.KIND)
PROCESS, PROGRAM, UNIT = "another process or another boot", "another program", "another unit"
SIBLING, ROUTER = "another child of the router", "the router itself"
BEFORE, AFTER = "before this life began", "after the next life began"
OTHER_LIVES = (PROCESS, BEFORE, AFTER)  # deaths that a stack without a name may be of


def of_this_life(
    items: Sequence[Evidence], life: Life | None, later: Life | None, who: Incarnation, tids: frozenset[int]
) -> tuple[list[Evidence], list[Gap]]:
    """The evidence without the ends that are not this life's, and a gap that names them.

    ``life`` is the chosen one, ``later`` the next one of its stream; ``who`` and ``tids`` are the core's.
    """
    who = _who(items, life, who)
    units = _units(items, life)
    reasons = {item.id: why for item in items if (why := _stranger(item, life, later, who, tids, units))}
    kept = [item for item in items if item.id not in reasons]
    left = [item for item in items if item.id in reasons]
    gaps = [*_gaps(left, reasons), *_elsewhere(left, reasons, who)]
    elsewhere = [item for item in items if reasons.get(item.id) in OTHER_LIVES]
    if deaths_in(elsewhere) and not _own_deaths(kept) and any(item.kind == StackFact.KIND for item in kept):
        return [muted(item) for item in kept], [*gaps, _WHOSE_STACK]
    return kept, gaps


_WHOSE_STACK = Gap(
    what="whose death the stack shows",
    why="another death of a server is on record and none of the one whose log this is; so its sleep lines "
    "do not count",
    command="give the log of the process that died: journalctl _PID=PID -b BOOT -o export > server.export",
)


def _own_deaths(kept: Sequence[Evidence]) -> list[Evidence]:
    """Those that somebody else than a pasted trace tells of."""
    return [item for item in deaths_in(kept) if item.data.get("by") != "trace"]


def _who(items: Sequence[Evidence], life: Life | None, core: Incarnation) -> Incarnation:
    """The process: the core's and the chosen life's name, else what the first fact that names one says."""
    known = [core, life.who] if life is not None else [core]
    if all(one.pid is None for one in known):
        known += [item.incarnation for item in items if _names_one(item)][:1]
    return Incarnation(
        pid=next((one.pid for one in known if one.pid is not None), None),
        start_time=next((one.start_time for one in known if one.start_time is not None), None),
        boot_id=next((one.boot_id for one in known if one.boot_id is not None), None),
    )


def _names_one(item: Evidence) -> bool:
    return item.incarnation.pid is not None and item.kind != KernelFact.KIND and not foreign_record(item)


def _stranger(
    item: Evidence,
    life: Life | None,
    later: Life | None,
    who: Incarnation,
    tids: frozenset[int],
    units: frozenset[str] | None,
) -> str | None:
    """Why this is not about the incident's process; None when it may be."""
    if not who.same_as(item.incarnation) and item.kind != CoreFact.KIND:
        return PROGRAM if foreign_record(item) else PROCESS
    if item.kind not in OUTSIDE:
        return None
    if foreign_record(item) and item.incarnation.pid != who.pid:
        return PROGRAM
    fact = fact_of(item, ExitFact)
    if fact is not None and (family := _of_the_family(fact, item, life)) is not None:
        return family
    if fact is not None and fact.unit is not None and units is not None and fact.unit not in units:
        return UNIT
    kernel = named_in(item)
    if kernel is not None and kernel.tid in tids:
        return None
    names_it = who.pid is not None and who.pid in (item.incarnation.pid, kernel.tid if kernel else None)
    return _other_time(item, life, None if names_it else later)


def _of_the_family(fact: ExitFact, item: Evidence, life: Life | None) -> str | None:
    """Whose end it is where a router is about: a supervisor knows the router and none of its children."""
    if life is None or not (life.routes or life.child is not None):
        return None
    if fact.by == "router":
        own = life.child is not None and life.child.exit is not None and life.child.exit.id == item.id
        return None if own else SIBLING
    about_all = fact.oom or item.incarnation.pid is not None or fact.by not in ("systemd", "docker")
    return None if life.child is None or about_all else ROUTER


def _units(items: Sequence[Evidence], life: Life | None) -> frozenset[str] | None:
    """The units whose ends may be this life's; None when nothing tells.

    Where the life's lines do not name their unit, the only unit in the evidence is taken for it, or the only
    one with the server's name.
    """
    facts = [fact for item in items if (fact := fact_of(item, ExitFact)) is not None and fact.unit]
    named = {fact.unit for fact in facts if fact.unit and fact.by != "router"}
    routed = {fact.unit for fact in facts if fact.unit and fact.by == "router"}
    own = {unit for unit in named if life is not None and life.is_of(unit)}
    if own or (life is not None and life.names_unit):
        return frozenset(own | routed)
    ours = {unit for unit in named if SERVER.search(unit)}
    return frozenset((ours if len(ours) == 1 else set()) | routed) if len(named) > 1 else None


def _other_time(item: Evidence, life: Life | None, later: Life | None) -> str | None:
    for clock in CLOCKS:
        stamp, began = getattr(item, clock), life.began(clock) if life is not None else None
        if stamp is None or began is None:
            continue
        if stamp < began:
            return BEFORE
        after = later.began(clock) if later is not None else None
        return AFTER if after is not None and stamp > after else None
    return _other_day(item, life, later)


def _other_day(item: Evidence, life: Life | None, later: Life | None) -> str | None:
    if life is not None and begins_after(life, item):
        return BEFORE
    return AFTER if later is not None and begins_before(later, item) else None


def _gaps(left: Sequence[Evidence], reasons: dict[str, str]) -> Iterator[Gap]:
    if left:
        told = ", ".join(sorted({reasons[item.id] for item in left}))
        why = f"they are not about this life of the server ({told}); the first is {left[0].source}"
        yield Gap(what=f"{len(left)} facts about other ends", why=why)


def _elsewhere(left: Sequence[Evidence], reasons: dict[str, str], who: Incarnation) -> Iterator[Gap]:
    """A death of the very PID, told of a unit that this log is not of: the PID was used again, or the log is
    another server's."""
    named = [item for item in left if reasons[item.id] == UNIT and item.incarnation.pid is not None]
    for item in [one for one in named if one.incarnation.pid == who.pid][:1]:
        unit = item.data.get("unit")
        yield Gap(
            what=f"whose death the record of PID {who.pid} tells of",
            why=f"{item.source} names the unit {unit}, and this log is of another one; it was not counted",
            command=f"journalctl -u {unit} -o export > server.export",
        )
