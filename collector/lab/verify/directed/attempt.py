"""One try: a fresh server under gdb, one request, held or sent while asleep, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analyzers.contracts.trials import ANSWERED, REFUSED, SERVER_ERROR, WRONG_ANSWER
from analyzers.stacks.mi import MiError
from collector.lab.faults.prompts import touch
from collector.lab.reference.client import Pending, Request
from collector.lab.reference.conditions import ENTERING, asleep
from collector.lab.reference.output import printable
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.directed.debugged import debugged
from collector.lab.verify.directed.ending import Attempt, Seen, conclude
from collector.lab.verify.directed.places import IDLE_SECONDS, Places
from collector.lab.verify.directed.points import Point, under_handler
from collector.lab.verify.directed.steps import (
    catch,
    insert,
    leave_function,
    pass_on,
    remove,
    wait_for_sleep,
)
from collector.lab.verify.directed.watch import END_DEADLINE
from collector.lab.verify.judge import ended_awake

SLEEP_DEADLINE = 30.0
# A step out of a function that queues tasks ends in microseconds, or the thread waits there for somebody.
STEP_OUT_DEADLINE = 10.0
# Both alternatives of the point return a vector, whose place is the first argument: the vocabulary is the
# second one. See the System V ABI for x86-64.
VOCABULARY = "rsi"
# ggml's own backtrace starts a second debugger, which cannot trace what gdb traces, and waits for it.
ENVIRONMENT = {"GGML_NO_BACKTRACE": "1"}


def attempt(base: ServerSpec, folder: Path, gdb: str, places: Places, point: Point, request: Request) -> Seen:
    """Start, hold, let go, watch, take down. Raises UserError when the server cannot be started under gdb."""
    spec = replace(
        base, idle_seconds=IDLE_SECONDS, poisoned=True, environment={**ENVIRONMENT, **base.environment}
    )
    seen = Seen()
    with debugged(spec, folder, gdb) as server:
        try:
            _observe(Attempt(point, request, server, seen), places)
        except MiError as error:
            seen.reached = False
            seen.notes.append(f"gdb: {printable(error.reason, 120)}")
    return seen


def _observe(this: Attempt, places: Places) -> None:
    addresses = places.learn(this.server).get(places.symbol(this.point), [])
    if not addresses:
        this.note("the server did not load the file that has the point")
    elif not _baseline(this, this.server.begin(_first(this))):
        return
    elif this.point.asleep:
        _wake_it(this, addresses)
    elif _baseline(this, this.server.begin(_first(this))):
        _hold(this, insert(this.server, addresses))


def _first(this: Attempt) -> Request:
    """The request for the awake answer; the touch before it sees to it that the server is awake."""
    woken = this.server.begin(replace(touch(), timeout=SLEEP_DEADLINE))
    this.server.wait_until(lambda _: pass_on(this.server) or not woken.waiting, SLEEP_DEADLINE)
    return replace(this.request, timeout=SLEEP_DEADLINE)


def _baseline(this: Attempt, pending: Pending) -> bool:
    """Wait for an awake answer; False, and a note, when it is none to compare with.

    Two are taken: a user's own model may answer the same request in two ways.
    """
    this.server.wait_until(lambda _: pass_on(this.server) or not pending.waiting, SLEEP_DEADLINE)
    this.awake, this.again = pending.answer, this.awake
    if this.awake is not None and this.awake.status == 200:
        return True
    if this.awake is not None and this.awake.status == 404:
        this.seen.outcome, this.seen.reached, this.seen.status = REFUSED, True, 404
    this.note(_no_answer(this))
    return False


def _no_answer(this: Attempt) -> str:
    """Why there is no awake answer: no sleep was near, so that an end says nothing of the defects."""
    awake, server = this.awake, this.server
    if awake is None or awake.status is None:
        server.wait_until(lambda _: pass_on(server), END_DEADLINE)  # a broken connection announces an end
    if server.ending is not None:
        how = ended_awake(server.ending.signal, server.ending.code, this.oom_before)
        return f"in the awake measurement {how}"
    got = "nothing" if awake is None else awake.status or awake.error
    return f"the awake server answers {this.request.route} with {got}"


def _hold(this: Attempt, numbers: list[str]) -> None:
    """Catch the request's thread at the point, hold it until the server sleeps, let it go."""
    server, sleeps = this.server, this.server.transitions(ENTERING)
    this.pending = server.begin(this.request)
    caught = catch(server, this.point, this.pending)
    if not this.point.leave:
        remove(server, numbers)
    if caught is None or (this.point.leave and not leave_function(server, caught.thread)):
        this.note("the request's thread did not come by the point")
        return
    slept = wait_for_sleep(server, caught)
    this.note(slept.value)
    this.seen.reached = slept.counts
    _let_go(this, caught.thread)
    conclude(this)
    if this.seen.outcome in (SERVER_ERROR, WRONG_ANSWER) and server.transitions(ENTERING) == sleeps:
        this.seen.reached = False
        this.seen.notes.insert(0, "the answer differs, but no sleep came into the request")
    if caught.thread in server.passed:
        this.seen.reached = False
        this.note("the request came by the point again: what it did after the first time proves nothing")


def _let_go(this: Attempt, thread: str) -> None:
    server = this.server
    if server.absorb():
        return
    if this.point.step_out and leave_function(server, thread, STEP_OUT_DEADLINE):
        this.note("the task was queued")
        server.go_on(thread)
    elif not this.point.step_out:
        server.go_on(thread)


def _wake_it(this: Attempt, addresses: list[int]) -> None:
    """Send the request to a sleeping server: it wakes it, and its thread comes by the point and runs on.

    The vocabulary's address is read at the point, awake and after the wake. A reload can put the model where
    it was: a pointer kept across the sleep is right by luck then, and a right answer says nothing.
    """
    server = this.server
    numbers = insert(server, addresses)
    first = server.begin(_first(this))
    before = _come_by(this, first)
    if not _baseline(this, first) or before is None:
        return
    if not server.wait_until(lambda _: pass_on(server) or asleep(server), SLEEP_DEADLINE):
        this.note("the server did not go to sleep")
        return
    sleeps = server.transitions(ENTERING)
    this.pending = server.begin(this.request)
    after = _come_by(this, this.pending)
    if not server.finished:
        remove(server, numbers)
    conclude(this)
    this.seen.reached = _met(this, sleeps, before, after)


def _come_by(this: Attempt, pending: Pending) -> int | None:
    """Where the vocabulary is that the request's thread reads at the point; the thread runs on."""
    caught = catch(this.server, this.point, pending)
    if caught is None:
        return None
    vocabulary = this.server.register(caught.thread, VOCABULARY)
    this.server.go_on(caught.thread)
    return vocabulary


def _met(this: Attempt, sleeps: int, before: int, after: int | None) -> bool:
    """Whether the trial says anything; a note when it does not.

    Printing the sanitizer's report can take longer than the idle limit: a sleep after the read that it names
    takes nothing from it, and the oracle has looked at what came before.
    """
    if _stale_read(this):
        this.note("the sanitizer saw the request read what the sleep before it had freed")
        return True
    if this.server.transitions(ENTERING) > sleeps:
        this.note("the server slept again meanwhile")
    elif after is None and not under_handler(_died_at(this), this.point.handler):
        this.note("the request's thread did not come by the point")
    elif this.seen.outcome == ANSWERED and after == before:
        this.note(
            "the model came back to where it was before the sleep: a kept pointer would be right by luck"
        )
    else:
        this.note("the request came while the server slept, and woke it")
        return True
    return False


def _stale_read(this: Attempt) -> bool:
    oracle = this.seen.oracle
    return oracle is not None and oracle.judgement.defect == this.point.defect


def _died_at(this: Attempt) -> list[str]:
    return this.server.stack(this.server.fatal[0]) if this.server.fatal else []
