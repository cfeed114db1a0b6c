"""Makes one trial: a route in a state, repeated until the state was met, judged when it went badly."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from threading import Lock

from analyzers.contracts.routes import ASLEEP, AWAKE, NO_PROMISE, UNLOADING, RouteTrial
from analyzers.contracts.trials import (
    ANSWERED,
    BAD,
    CRASHED,
    INCONCLUSIVE,
    SERVER_ERROR,
    STRANDED,
)
from collector.lab.faults import provoked as fault
from collector.lab.faults.kernel import KernelLines
from collector.lab.faults.provoked import Expected, Provoked, closed
from collector.lab.reference.client import Pending
from collector.lab.reference.conditions import EXITING, asleep, asleep_by_props
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.server import RunningServer
from collector.lab.verify.judge import judge
from collector.lab.verify.routes import timer
from collector.lab.verify.routes.promises import Promise, judged, promised
from collector.lab.verify.routes.rightness import Baseline, outcome_of, rightness
from collector.lab.verify.routes.seat import Seat
from collector.lab.verify.routes.shots import PATIENCE, SHOTS, WAKER, Shot, fall_asleep
from collector.lab.verify.routes.table import Route
from collector.lab.verify.routes.wide import Widths

# A state is missed when the machine is busy at that moment; after four tries 2 % of the cells still were.
TRIES = 8
# What is meant by the fault is not known before: triage is told nothing it does not see.
EXPECTED = Expected("UNDETERMINED", ("unknown",), ("unknown",))
RELEASED = "released by a waking call"
NOT_RELEASED = "a waking call did not release it: a hang of another kind"
KINDS = {CRASHED: fault.CRASH, STRANDED: fault.HANG, SERVER_ERROR: fault.ERROR}


@dataclass
class Workshop:
    """What every trial of one build shares. ``keep``: cores stay after they were judged."""

    promise: Promise | None
    widths: Widths
    keep: bool = False
    judging: Lock = field(default_factory=Lock)


@dataclass(frozen=True)
class Seen:
    """One try as it ended. ``server`` is where it happened: the seat may hold another one by now."""

    outcome: str
    reached: bool
    pending: Pending
    server: RunningServer
    wakes: bool | None = None
    resets: bool | None = None
    note: str = ""
    bad: Pending | None = None


def attempt(workshop: Workshop, seat: Seat, route: Route, state: str) -> RouteTrial:
    """Up to TRIES tries, each on the seat's living server; the last one counts."""
    awake = seat.awake[route.name]
    look = _timed if state == AWAKE else _shot
    tries = 1
    seen = look(workshop, seat, route, state)
    while not seen.reached and tries < TRIES:
        tries += 1
        seen = look(workshop, seat, route, state)
    trial = _record(workshop, route, state, awake, seen, tries)
    if seen.outcome in BAD and seen.reached:
        trial = _judged(workshop, seat, trial, awake, seen)
    return trial


def _timed(workshop: Workshop, seat: Seat, route: Route, state: str) -> Seen:
    server = seat.get()
    timed = timer.time_it(server, route)
    outcome = _outcome(server, timed.pending, seat.awake[route.name])
    reached = timed.reached and (timed.resets is not None or outcome in BAD)
    return Seen(outcome, reached, timed.pending, server, resets=timed.resets, note=timed.why_not)


def _shot(workshop: Workshop, seat: Seat, route: Route, state: str) -> Seen:
    if route.fresh:
        seat.leave()
    server = seat.get()
    if state != UNLOADING and not fall_asleep(server):
        seat.leave()
        return Seen(INCONCLUSIVE, False, Pending(server.port, WAKER), server, note="the server did not sleep")
    shot = SHOTS[state](server, route, workshop.widths)
    outcome, bad = _worse(server, shot, seat.awake)
    wakes = _woke(server, shot.woken) if state in (ASLEEP, UNLOADING) else None
    note = "" if shot.reached else shot.why_not
    return Seen(outcome, shot.reached, shot.pending, server, wakes=wakes, note=note, bad=bad)


def _worse(server: RunningServer, shot: Shot, awake: dict[str, Baseline]) -> tuple[str, Pending | None]:
    """The request's outcome, or that of the completion beside it when that one went badly."""
    own = _outcome(server, shot.pending, awake[_name(shot.pending)])
    if shot.other is None or own in BAD:
        return own, None
    other = _outcome(server, shot.other, None)
    return (other, shot.other) if other in BAD else (own, None)


def _name(pending: Pending) -> str:
    return f"{pending.request.method} {pending.request.route}"


def _outcome(server: RunningServer, pending: Pending, awake: Baseline | None) -> str:
    if server.ending is not None and server.ending.signal is not None:
        return CRASHED
    answer = pending.answer
    if answer is None:
        return STRANDED if asleep(server) else INCONCLUSIVE
    if answer.status is None:
        return INCONCLUSIVE
    if awake is None:
        return ANSWERED if answer.status < 400 else SERVER_ERROR
    return outcome_of(answer, awake)


def _woke(server: RunningServer, before: int) -> bool | None:
    """The loop printed that it leaves its sleep, or /props says that the server is awake. A dead server that
    printed nothing may have lost its last line: then it cannot be told."""
    if server.transitions(EXITING) > before:
        return True
    return None if server.finished else not asleep_by_props(server)


def _record(
    workshop: Workshop, route: Route, state: str, awake: Baseline, seen: Seen, tries: int
) -> RouteTrial:
    answer = seen.pending.answer
    word = promised(route, workshop.promise, awake.answer.status)
    kept = judged(word, state, seen.outcome, seen.wakes, seen.resets) if seen.reached else "none"
    notes = [said for said in (seen.note, _exited(seen)) if said]
    if seen.bad is not None:
        notes.append("what went badly was the completion beside it")
    return RouteTrial(
        number=0,
        route=route.name,
        handler=route.handler,
        state=state,
        outcome=seen.outcome if seen.reached else INCONCLUSIVE,
        reached=seen.reached,
        status=answer.status if answer else None,
        seconds=round(answer.seconds, 4) if answer and answer.status else None,
        wakes=seen.wakes if seen.reached and seen.outcome != INCONCLUSIVE else None,
        resets=seen.resets if seen.reached and seen.outcome != INCONCLUSIVE else None,
        right=rightness(answer, awake) if answer and seen.reached else None,
        awake_status=awake.answer.status,
        promised=word,
        promise=kept,
        tries=tries,
        notes=notes,
    )


def _exited(seen: Seen) -> str | None:
    """A server that ended by a status of its own left no core and no signal: nobody can say what it was."""
    ending = seen.server.ending
    if ending is None or ending.signal is not None:
        return None
    return f"the server ended by itself with status {ending.code}"


def _judged(workshop: Workshop, seat: Seat, trial: RouteTrial, awake: Baseline, seen: Seen) -> RouteTrial:
    """The trial with its triaged verdict. The server is taken down; a stranded request is released first."""
    provoked = _provoked(seen, awake)
    with workshop.judging:
        (folder := seen.server.folder / "judged").joinpath("bundle").mkdir(parents=True, exist_ok=True)
        judgement, signature = judge(provoked, folder)
    note = _released(seen) if seen.outcome == STRANDED else None
    number = provoked.ending.signal if provoked.ending else None
    seat.leave()
    if not workshop.keep:
        shutil.rmtree(seen.server.folder, ignore_errors=True)
    if note == NOT_RELEASED:
        open_ = {"outcome": INCONCLUSIVE, "reached": False, "promise": NO_PROMISE}
        return trial.model_copy(update={**open_, "notes": [note, *trial.notes]})
    notes = [*trial.notes, *([note] if note else [])]
    update = {"judgement": judgement, "signature": signature, "signal": number, "notes": notes}
    return trial.model_copy(update={**update, "defect": judgement.defect})


def _provoked(seen: Seen, awake: Baseline) -> Provoked:
    said = (awake.answer, (seen.bad or seen.pending).answer)
    answers = tuple(each for each in said if each is not None and each.status is not None)
    kind = KINDS.get(seen.outcome, fault.WRONG)
    if seen.outcome == STRANDED:
        core = CoreSearch(None, "the server lives")
        return Provoked("routes", EXPECTED, True, kind, seen.server, core, KernelLines(), client=seen.pending)
    health = None if seen.server.finished else seen.server.get("/health")
    return closed("routes", EXPECTED, seen.server, kind, happened=True, answers=answers, health=health)


def _released(seen: Seen) -> str:
    """Wake a server that left a request waiting: a hang that this does not end is no stranded request."""
    seen.server.send(WAKER)
    answer = (seen.bad or seen.pending).wait(PATIENCE)
    return RELEASED if answer is not None and answer.status is not None else NOT_RELEASED
