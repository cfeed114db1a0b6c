"""The report's timeline: one clock, rising, with the sleep transitions and the fault."""

from __future__ import annotations

from collections.abc import Iterable

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import TimelineItem
from analyzers.verdict.case import Case, Seen

ITEM_LIMIT = 400
ROUTINE = ("task-launched", "task-done", "slots-idle", "request", "child-called", "probe")
CLOCKS = ("mono", "wall", "elapsed")
FAULT_SHAPES = ("segfault", "gpf", "invalid-opcode", "divide-error", "oom-kill")


def timeline_of(case: Case) -> list[TimelineItem]:
    """Log events, probes, actions, aborts and the fault on the clock that places most of them.

    What has no time on that clock is left out, except the end of the process: it stands after everything
    its own log says, and its text says that the distance is not to scale.
    """
    dated = _aligned(list(_dated(case)))
    if not dated:
        return []
    usable = _usable(dated)
    clock = max(
        usable, key=lambda name: (sum(_at(e, name) is not None for _, e in dated), -CLOCKS.index(name))
    )
    dated = _placed(dated, clock)
    items = [_item(event, item, clock) for event, item in dated if _at(item, clock) is not None]
    items.sort(key=lambda item: item.at)
    items = _thinned(items)
    return items + _undated_end(case, items, clock)


def _dated(case: Case) -> Iterable[tuple[str, Evidence]]:
    for log in case.log:
        yield log.fact.event, log.evidence
    for abort in case.aborts:
        yield "abort", abort.evidence
    for kernel in case.kernel:
        yield ("fault" if kernel.fact.shape in FAULT_SHAPES else kernel.fact.shape), kernel.evidence
    for probe in case.probes:
        yield "probe", probe.evidence
    for socket in case.sockets:
        yield ("unanswered" if socket.fact.unanswered else "socket"), socket.evidence
    for answer in case.answers:
        yield "answer", answer.evidence
    for action in case.actions:
        yield action.fact.action or "action", action.evidence
    for ending in case.exits:
        yield "exit", ending.evidence


def _aligned(dated: list[tuple[str, Evidence]]) -> list[tuple[str, Evidence]]:
    """Log lines at the time they were made rather than when they arrived.

    A line carries its logger's own stamp, and arrives at once or late (through a queue, after a crash), never
    early; so the smallest distance between the two clocks is the true one. One life, so one distance.
    """
    for clock in ("wall", "mono"):
        both = [
            (e.elapsed, at) for _, e in dated if e.elapsed is not None and (at := _at(e, clock)) is not None
        ]
        if len(both) < 2 or _jumps(both):
            continue
        start = min(at - elapsed for elapsed, at in both)
        dated = [(event, _moved(item, clock, start)) for event, item in dated]
    return dated


def _jumps(pairs: list[tuple[float, float]]) -> bool:
    from analyzers.triage.clocks import jumped  # not for a core alone

    return jumped([(at, elapsed) for elapsed, at in pairs]) is not None


def _usable(dated: list[tuple[str, Evidence]]) -> tuple[str, ...]:
    """Without the wall clock where it jumped: its order is not the order of things."""
    both = [item for _, item in dated if item.wall is not None and item.mono is not None]
    if len(both) < 2:
        return CLOCKS
    from analyzers.triage.clocks import wall_steps

    return tuple(clock for clock in CLOCKS if clock != "wall") if wall_steps(both) else CLOCKS


def _placed(dated: list[tuple[str, Evidence]], clock: str) -> list[tuple[str, Evidence]]:
    """What has no time on ``clock`` is put there by a clock that others name together with it."""
    lacking = [item for _, item in dated if _at(item, clock) is None]
    if not lacking or clock == "elapsed":
        return dated
    from analyzers.triage.clocks import mover

    moved = mover([item for _, item in dated])
    placed = {item.id: at for item in lacking if (at := moved(item, clock)) is not None}
    return [
        (event, item.model_copy(update={clock: placed[item.id]}) if item.id in placed else item)
        for event, item in dated
    ]


def _moved(item: Evidence, clock: str, start: float) -> Evidence:
    if item.elapsed is None or _at(item, clock) is None:
        return item
    return item.model_copy(update={clock: start + item.elapsed})


def _at(evidence: Evidence, clock: str) -> float | None:
    value = getattr(evidence, clock)
    return value if isinstance(value, float) else None


def _item(event: str, evidence: Evidence, clock: str) -> TimelineItem:
    at = _at(evidence, clock)
    return TimelineItem(
        at=at if at is not None else 0.0,
        clock=clock,
        event=event,
        text=evidence.text,
        source=evidence.source,
        trust=evidence.trust.value,
    )


def _thinned(items: list[TimelineItem]) -> list[TimelineItem]:
    """At most ITEM_LIMIT items: each slot's lines go first, and the oldest of the rest."""
    if len(items) <= ITEM_LIMIT:
        return items
    telling = [at for at, item in enumerate(items) if item.event not in ROUTINE][-ITEM_LIMIT:]
    routine = [at for at, item in enumerate(items) if item.event in ROUTINE]
    room = ITEM_LIMIT - len(telling)
    kept = {*telling, *routine[: room // 4], *routine[len(routine) - (room - room // 4) :]}
    return [item for at, item in enumerate(items) if at in kept]


def _undated_end(case: Case, items: list[TimelineItem], clock: str) -> list[TimelineItem]:
    if any(item.event in ("fault", "exit") for item in items) or not items:
        return []
    ends: list[Seen[object]] = [*case.kernel, *case.cores, *case.exits]  # type: ignore[list-item]
    deaths = [seen for seen in ends if getattr(seen.fact, "shape", "segfault") in FAULT_SHAPES]
    if not deaths:
        return []
    evidence = deaths[0].evidence
    return [
        TimelineItem(
            at=items[-1].at,
            clock=clock,
            event="fault",
            text=f"{evidence.text} (after the last line of the log; how long after is not known)",
            source=evidence.source,
            trust=evidence.trust.value,
            dated=False,
        )
    ]
