"""Which life of the server a log tells of.

A log that outlived its server holds several lives, one after each restart, and one of a router or of compose
holds several servers'. Mixing them would lend one life's sleep to another one's crash, so a verdict reads
exactly one, and says which. Where neither process, unit nor clock tells which one died, and only some of
them slept, the sleep lines of the one that was read count as little as a client's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, ExitFact, KernelFact, LogFact, fact_of
from analyzers.contracts.report import Gap
from analyzers.contracts.watched import HostFact
from analyzers.triage.lives import CLOCKS, SLEEPS, Life, follows

MANAGED = ("success", "scheduled-restart", "start-limit-hit", "stopping")  # systemd's words for no death
MODEL = ("loading", "loaded", *SLEEPS, "task-launched", "task-done")  # no router prints these for itself


@dataclass(frozen=True)
class Chosen:
    """The evidence of one life: the ``life``, the one that came ``later`` in its lane, and what was left."""

    items: list[Evidence]
    gaps: list[Gap]
    life: Life | None = None
    later: Life | None = None


def one_life(evidence: Sequence[Evidence], lives: Sequence[Life], port: int | None = None) -> Chosen:
    """The evidence without the other lives' log lines, and a gap that says which life was read.

    ``port`` is where the process of the core listened, when that is known.
    """
    # By name, so that the order in which the inputs were given decides nothing.
    items, lives = list(evidence), sorted(lives, key=lambda life: life.name)
    if len(lives) < 2:
        return Chosen(items, [], lives[0] if lives else None)
    index, why, doubted = choose(lives, items, port)
    life = lives[index]
    dropped = frozenset().union(*(other.ids for other in lives)) - life.ids
    kept = [item for item in items if item.id not in dropped]
    later = next(
        (other for other in lives[index + 1 :] if any(follows(other, life, c) for c in CLOCKS)), None
    )
    if not doubted and life.child is not None and _one_family(lives):
        return Chosen(kept, _other_deaths(lives, index), life, later)
    gap = Gap(
        what=f"{len(lives) - 1} other lives of the server in this log",
        why=f"a verdict reads one life; this one reads number {index + 1} of {len(lives)}: {why}",
        command="cut the log to the life in question, or give journal entries (they name their process)",
    )
    if not doubted:
        return Chosen(kept, [gap], life, later)
    return Chosen([muted(item) for item in kept], [gap, _NOT_LENT], life, later)


def _one_family(lives: Sequence[Life]) -> bool:
    """One router and its children: their lines are told apart by port, so none is missing for the others."""
    return sum(life.routes for life in lives) == 1 and all(
        life.routes or life.child is not None for life in lives
    )


def _other_deaths(lives: Sequence[Life], chosen: int) -> list[Gap]:
    others = [life.child for at, life in enumerate(lives) if at != chosen and life.child is not None]
    dead = [f"{child.name} on port {child.port}" for child in others if child.died]
    if not dead:
        return []
    why = f"the router reports their ends too ({', '.join(dead)}); this verdict is about one child"
    return [Gap(what=f"{len(dead)} other children that died", why=why, command="give their cores as well")]


_NOT_LENT = Gap(
    what="the sleep of the server that died",
    why="several lives of this log may be the one that died, and neither a PID, a unit nor a clock tells "
    "which one died (nor a port that only one had); so no sleep line counts",
    command="give only the lines of the server that died, or: journalctl -u UNIT -o export > server.export",
)


def muted(item: Evidence) -> Evidence:
    """A sleep line as client text: it is shown and proves nothing. Everything else as it is."""
    fact = fact_of(item, LogFact)
    sleeps = fact is not None and fact.event in SLEEPS
    return item.model_copy(update={"trust": Trust.CLIENT}) if sleeps else item


def choose(
    lives: Sequence[Life], items: Sequence[Evidence], port: int | None = None
) -> tuple[int, str, bool]:
    """(index of the life that is read, why, True when that is a guess between lives that slept and not)."""
    fitting, why = _by_name(lives, items)
    on_port = [at for at, life in enumerate(lives) if port is not None and life.listens == port]
    if on_port and not set(fitting) < set(on_port):  # a server that is restarted keeps its port
        fitting, why = on_port, f"the one on port {port}, as the core says"
    if len(fitting) > 1:
        running = _by_clock(lives, fitting, items)
        if running:
            fitting, why = running, "the one that was running when the process died"
    if len(fitting) == 1:
        return fitting[0], why, _may_be_the_router(lives, fitting[0], items)
    index, why, sure = _guess(lives, fitting, items)
    return index, why, not sure and _lends(lives, fitting, items)


def _lends(lives: Sequence[Life], fitting: Sequence[int], items: Sequence[Evidence]) -> bool:
    """True when a guess among the lives could lend one's sleep to another. Where all slept, a core's fault
    follows from how long ago: only the life that died tells that."""
    slept = {lives[at].slept for at in fitting}
    cored = any(item.kind == CoreFact.KIND for item in items)
    return len(slept) > 1 or (cored and True in slept)


def _may_be_the_router(lives: Sequence[Life], chosen: int, items: Sequence[Evidence]) -> bool:
    """A kernel line beside a router's log that tells no child's end: a router that died prints no more."""
    life = lives[chosen]
    if life.port is None or not any(each.routes and each.name == life.name for each in lives):
        return False
    named = life.child is not None and life.child.died
    return not named and any(item.kind == KernelFact.KIND for item in deaths_in(items))


def _by_name(lives: Sequence[Life], items: Sequence[Evidence]) -> tuple[list[int], str]:
    every = _servers(lives)
    deaths = deaths_in(items)
    dead = list(_dead(deaths))
    named = [at for at, life in enumerate(lives) if any(_same(life, one) for one in dead)]
    if named:
        return named, f"the one of PID {lives[named[-1]].pid}"
    reported = [at for at, life in enumerate(lives) if life.child is not None and life.child.died]
    if reported:
        return reported, "the child whose end the router reports"
    booted = [item.incarnation for item in items if item.kind == HostFact.KIND and not deaths]
    under = [at for at in every if any(_same(lives[at], one) for one in booted)]
    if under:
        return under[-1:], "the one under which the machine booted again"
    units = {fact.unit for item in deaths if (fact := fact_of(item, ExitFact)) is not None and fact.unit}
    of_unit = [at for at in every if any(lives[at].is_of(unit) for unit in units)]
    return (of_unit, "the one whose unit or container ended") if of_unit else (every, "the only server in it")


def _servers(lives: Sequence[Life]) -> list[int]:
    """Without a router's own life where its children's are there: it has no model to crash with."""
    routed = {life.name for life in lives if life.port is not None or life.child is not None}
    kept = [
        at
        for at, life in enumerate(lives)
        if life.port is not None
        or life.child is not None
        or life.name not in routed
        or life.has(MODEL)
        or life.aborted
    ]
    return kept or list(range(len(lives)))


def _same(life: Life, dead: Incarnation) -> bool:
    return life.pid is not None and life.pid == dead.pid and life.who.same_as(dead)


def _by_clock(lives: Sequence[Life], fitting: Sequence[int], items: Sequence[Evidence]) -> list[int]:
    """Of each lane the life that ran when the process died, where one clock tells; else nothing."""
    for clock in CLOCKS:
        starts = [(at, start) for at in fitting if (start := lives[at].began(clock)) is not None]
        if len(starts) < len(fitting):
            continue
        for died in _death_times(items, clock):
            running = [at for at, start in starts if start <= died]
            if running:
                return [at for at in running if not _replaced(lives, at, running, clock)]
    return []


def _replaced(lives: Sequence[Life], at: int, running: Sequence[int], clock: str) -> bool:
    """True when a later life of the lane began after this one's last line."""
    return any(on > at and follows(lives[on], lives[at], clock) for on in running)


def _guess(lives: Sequence[Life], fitting: Sequence[int], items: Sequence[Evidence]) -> tuple[int, str, bool]:
    aborted = [at for at in fitting if lives[at].aborted]
    deaths = deaths_in(items)
    seen = any(item.kind in (CoreFact.KIND, KernelFact.KIND) for item in deaths)
    if not seen and all((child := lives[at].child) is not None and child.died for at in fitting):
        sure = not any(_names_another(item, lives) for item in deaths)
        return _last_to_die(lives, fitting, items), "the last child whose end the router reports", sure
    if aborted:
        return aborted[-1], "the last one that ended with an abort", len(aborted) == 1 and not seen
    followed = [at for at in fitting if any(lives[at].lane == lives[on].lane for on in fitting if on > at)]
    silent = [at for at in followed if not lives[at].stopped]
    if silent and deaths:
        return silent[-1], "the last one that was followed by a restart without a stop", False
    return fitting[-1], "the last one", False


def _names_another(item: Evidence, lives: Sequence[Life]) -> bool:
    """A record of a process, which may be any of the children: their router's lines name no PID of theirs."""
    pid = item.incarnation.pid
    return pid is not None and all(pid not in (life.pid, life.carrier) for life in lives)


def _last_to_die(lives: Sequence[Life], fitting: Sequence[int], items: Sequence[Evidence]) -> int:
    order = {item.id: at for at, item in enumerate(items)}
    ends = {at: child.exit for at in fitting if (child := lives[at].child) is not None and child.exit}
    return max(ends, key=lambda at: order.get(ends[at].id, -1))


def _dead(deaths: Iterable[Evidence]) -> Iterator[Incarnation]:
    """Who died. The kernel names a thread, and a process's first thread has its PID."""
    for item in deaths:
        kernel = fact_of(item, KernelFact)
        for number in (item.incarnation.pid, kernel.tid if kernel is not None else None):
            if number is not None:
                yield Incarnation(pid=number, boot_id=item.incarnation.boot_id)


def deaths_in(items: Sequence[Evidence]) -> list[Evidence]:
    """The facts that tell of an end that nobody asked for."""
    found = []
    for item in items:
        ended = fact_of(item, ExitFact)
        died = ended is not None and not ended.requested and ended.result not in MANAGED
        if item.kind in (CoreFact.KIND, KernelFact.KIND) or died:
            found.append(item)
    return found


def _death_times(items: Sequence[Evidence], clock: str) -> list[float]:
    stamps = [getattr(item, clock) for item in deaths_in(items)]
    return [stamp for stamp in stamps if stamp is not None]
