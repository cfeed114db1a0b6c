"""Are two records of a death about the same one? By incarnation first, then by threads, lines and clocks.

Three answers: they are the same, they cannot be, or nothing tells. The last one joins nothing: two deaths of
a PID that was used again, of two boots, of two children of a router or two restarts of a unit look alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.facts import CoreFact, StackFact, fact_of
from analyzers.triage.faults import named_in
from analyzers.triage.lives import CLOCKS, Life
from analyzers.triage.subjects import Open

# A host counts through its 32768 or 4 million PIDs before it uses one again, and the core of a model of tens
# of gigabytes is written in less: two records of one PID further apart are two deaths.
SAME_DEATH_S = 600.0
# The kernel's line, the core's record and the server's last words come within this of each other: the
# kernel's clock drifted by 1 ms an hour against CLOCK_MONOTONIC, a journal had a line 0.2 s late.
NEAR_S = 1.0
# Texts with so many lines of one event and one stamp of the server's own clock (microseconds) are one log.
SHARED_LINES = 2


class Same(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def same_death(one: Open, other: Open) -> Same:
    """Whether two incidents are one. UNKNOWN is no reason to join them."""
    if one.core is not None and other.core is not None:
        return Same.YES if same_core(one, other) else Same.NO
    mine, theirs = _registers(one), _registers(other)
    if mine is not None and theirs is not None and mine != theirs:
        return Same.NO  # what two bundles tell of their cores
    if not one.who.same_as(other.who) or _apart(one, other):
        return Same.NO
    if one.who.pid is not None and one.who.pid == other.who.pid:
        return Same.NO if _other_host(one, other) else Same.YES
    if _same_threads(one, other):
        return Same.YES
    if _other_threads(one, other):
        return Same.NO
    return _by_lines(one.lives, other.lives)


def may_be_one(one: Open, other: Open) -> bool:
    """False when their PIDs or a clock alone tell that they are two: a quick look before ``same_death``."""
    mine, theirs = one.who.pid, other.who.pid
    if mine is None or theirs is None:
        return True
    return mine == theirs and (one.core is not None or near(one, other, SAME_DEATH_S))


def _other_host(one: Open, other: Open) -> bool:
    """Without a boot's id a PID may be another host's or container's: texts without a common line tell."""
    if one.who.boot_id is not None and one.who.boot_id == other.who.boot_id:
        return False
    pairs = [(life, other_) for life in one.lives for other_ in other.lives if life.name != other_.name]
    answers = {same_life(life, other_) for life, other_ in pairs}
    return Same.NO in answers and Same.YES not in answers


def _same_threads(one: Open, other: Open) -> bool:
    """Small numbers that every container counts anew tell something only with the very same instruction."""
    if not one.threads & other.threads:
        return False
    return not (one.counts_apart or other.counts_apart) or bool(_crashed_at(one) & _crashed_at(other))


def _other_threads(one: Open, other: Open) -> bool:
    """Two deaths of which the kernel alone tells, by the threads that faulted in programs mapped elsewhere.

    Two threads of one process may fault at once: their object stands at one place of its memory.
    """
    mine, theirs = _mapped(one), _mapped(other)
    return bool(mine and theirs) and not (mine & theirs and near(one, other, NEAR_S))


def _mapped(incident: Open) -> set[tuple[str | None, int | None]]:
    """(object, where it begins) of each fault; empty where anything else tells of the incident."""
    return incident.once("mapped", lambda: _mappings(incident))


def _mappings(incident: Open) -> set[tuple[str | None, int | None]]:
    faults = [named_in(item) for item in incident.evidence]
    told = [fact for fact in faults if fact is not None and fact.ip is not None]
    if len(told) < len(faults):
        return set()
    return {(fact.object, (fact.ip or 0) - (fact.object_offset or 0)) for fact in told}


def _crashed_at(incident: Open) -> set[tuple[int, int]]:
    """(thread id, instruction) of its core and of the crashed threads of its traces."""
    found = set()
    for item in incident.evidence:
        core, stack = fact_of(item, CoreFact), fact_of(item, StackFact)
        if core is not None and core.crashed_tid is not None and core.instruction_pointer is not None:
            found.add((core.crashed_tid, core.instruction_pointer))
        if stack is not None and stack.tid is not None and stack.frames and stack.frames[0].ip is not None:
            found.add((stack.tid, stack.frames[0].ip))
    return found


def same_core(one: Open, other: Open) -> bool:
    """One core in two files: a packed, cut or slim copy. Two cores of one PID are two deaths: no two have the
    same threads at the same registers. False where either is no core."""
    mine, theirs = _registers(one), _registers(other)
    return mine is not None and mine == theirs and one.tids == other.tids


def _registers(incident: Open) -> tuple[int, ...] | None:
    return incident.once("registers", lambda: _read_registers(incident))


def _read_registers(incident: Open) -> tuple[int, ...] | None:
    fact = next((fact for item in incident.evidence if (fact := fact_of(item, CoreFact)) is not None), None)
    told = (fact.crashed_tid, fact.instruction_pointer, fact.stack_pointer) if fact is not None else (None,)
    return tuple(number for number in told if number is not None) if None not in told else None


def _apart(one: Open, other: Open) -> bool:
    """Signals, ports or clocks that differ."""
    if one.signal and other.signal and one.signal != other.signal:
        return True
    mine, theirs = ports_of(one), ports_of(other)
    return bool(mine and theirs and not mine & theirs) or not near(one, other, SAME_DEATH_S)


def ports_of(incident: Open) -> set[int]:
    """The ports it is known to have listened on."""
    return incident.once("ports", lambda: _ports(incident))


def _ports(incident: Open) -> set[int]:
    told = {life.listens for life in incident.lives}
    return {port for port in (incident.process.port, *told) if port is not None}


def near(one: Open, other: Open, seconds: float) -> bool:
    """False when a clock that dates both deaths puts them further apart."""
    for clock in CLOCKS:
        mine, theirs = one.died(clock), other.died(clock)
        if mine is not None and theirs is not None:
            return abs(mine - theirs) <= seconds
    return True


def _by_lines(mine: Iterable[Life], theirs: Iterable[Life]) -> Same:
    """Two lives of one text are two; two texts of one life share its lines, to the microsecond."""
    answers = {same_life(life, other) for life in mine for other in theirs}
    return next((answer for answer in (Same.YES, Same.NO) if answer in answers), Same.UNKNOWN)


def same_life(one: Life, other: Life) -> Same:
    """Whether two texts' lives are one process's."""
    if one.name == other.name:
        return Same.YES if one.items and one.items == other.items else Same.NO
    mine, theirs = _stamped(one), _stamped(other)
    if len(mine & theirs) >= SHARED_LINES:
        return Same.YES
    whole = min(len(mine), len(theirs)) > SHARED_LINES
    return Same.NO if whole and not mine & theirs else Same.UNKNOWN


def _stamped(life: Life) -> set[tuple[float, str]]:
    return {(item.elapsed, item.text) for item in life.items if item.elapsed is not None}


def names(item: Evidence, incident: Open) -> bool:
    """The fact names the incident's process, or one of its threads."""
    kernel = named_in(item)
    if kernel is not None and kernel.tid is not None:
        return kernel.tid in incident.threads or kernel.tid == incident.who.pid
    stack = fact_of(item, StackFact)
    if stack is not None and stack.tid in incident.tids and item.incarnation.pid is None:
        return True
    return item.incarnation.pid is not None and item.incarnation.pid == incident.who.pid


def fits(item: Evidence, incident: Open) -> bool:
    """Nothing in the fact contradicts that it is about the incident's process."""
    kernel = named_in(item)
    if kernel is not None and kernel.tid is not None and incident.tids:
        return kernel.tid in incident.tids and _of_boot(item.incarnation, incident.who)
    if not incident.who.same_as(item.incarnation):
        return False
    at = distance(item, incident)
    return at is None or abs(at) <= SAME_DEATH_S


def _of_boot(item: Incarnation, who: Incarnation) -> bool:
    return Incarnation(boot_id=item.boot_id).same_as(Incarnation(boot_id=who.boot_id))


def distance(item: Evidence, incident: Open) -> float | None:
    """Seconds from the first word about the incident's end to the fact; None when no clock dates both.

    CLOCK_MONOTONIC first: it knows no step, and counts within one boot only.
    """
    for clock in CLOCKS:
        stamp, died = incident.at(item, clock), incident.died(clock)
        if stamp is not None and died is not None:
            return stamp - died
    return None
