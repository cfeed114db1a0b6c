"""The steps of one trial on a debugged server: insert, catch, hold, wait for sleep, let go. Each waits on a
condition and is bounded by a deadline that a saturated machine does not reach."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from collector.lab.faults.pinning import METRICS
from collector.lab.reference.client import Pending
from collector.lab.reference.conditions import ENTERING, asleep, asleep_by_log
from collector.lab.verify.directed.debugged import DebuggedServer
from collector.lab.verify.directed.points import Point, under_handler
from collector.lab.verify.directed.stillness import Stillness

# From sending to the point takes a millisecond; only a machine that hardly runs us needs longer.
HIT_DEADLINE = 45.0
# The loop looks once a second whether it has been idle for one: it sleeps within two. After so long it is
# asked by a call through the loop, which makes it look again at once.
SLEEP_BOUND = 4.0
LOOK_AGAIN = 2.0
LOOP_DEADLINE = 15.0


class Sleep(Enum):
    """What the server did while the request was held."""

    SLEPT = "the server slept while the request was held"
    ANNOUNCED = "the server announced its sleep and waits, with nothing running, while the request is held"
    UNFINISHED = "the server announced its sleep and was still busy with it: it was too slow to be waited for"
    STAYED_AWAKE = "server did not sleep while the request was held, and its loop answered"
    UNCLEAR = "the server did not sleep, and its loop did not answer either"
    DIED = "the server ended while the request was held"

    @property
    def counts(self) -> bool:
        """The server had its chance to sleep under the held request, and what it did with it is known."""
        return self not in (Sleep.UNCLEAR, Sleep.UNFINISHED)


@dataclass(frozen=True)
class Caught:
    """A thread that stands at the point. ``entered``: sleeps so far, when it was caught."""

    thread: str
    entered: int


def insert(server: DebuggedServer, addresses: Sequence[int]) -> list[str]:
    """Breakpoints at ``addresses``, put in while nothing runs: put in beside running threads they were hit 0
    times of 9. Returns their numbers."""
    server.interrupt()
    numbers = []
    for address in addresses:
        made = server.gdb.ask(f"-break-insert *{address:#x}").get("bkpt")
        if isinstance(made, dict):
            numbers.append(str(made.get("number")))
    server.go_on()
    return numbers


def remove(server: DebuggedServer, numbers: Sequence[str]) -> None:
    """Take the breakpoints out; threads that ran into them meanwhile run on."""
    if numbers:
        server.gdb.ask(f"-break-delete {' '.join(numbers)}")
    pass_on(server)


def pass_on(server: DebuggedServer) -> bool:
    """Take in events and let everybody run on that nobody wants to hold; True when the server died."""
    died = server.absorb()
    while server.hits and not died:
        thread = server.hits.popleft()
        server.passed.append(thread)
        server.go_on(thread)
    return died


def catch(server: DebuggedServer, point: Point, pending: Pending) -> Caught | None:
    """The first thread that stands at the point under the handler; every other one is let go at once. None
    when the request was answered, or the server died, before."""
    held: list[Caught] = []

    def met(_: object) -> bool:
        died = server.absorb()
        while server.hits and not held and not died:
            thread = server.hits.popleft()
            if under_handler(server.stack(thread), point.handler):
                held.append(Caught(thread, server.transitions(ENTERING)))
            else:
                server.go_on(thread)
        return bool(held) or died or not pending.waiting

    server.wait_until(met, HIT_DEADLINE)
    return held[0] if held else None


def leave_function(server: DebuggedServer, thread: str, deadline: float = HIT_DEADLINE) -> bool:
    """Run the thread to the end of its function, where it stands again. False when it does not come there."""
    server.left.discard(thread)
    server.gdb.ask(f"-exec-finish --thread {thread}")
    server.wait_until(lambda _: pass_on(server) or thread in server.left, deadline)
    return thread in server.left


def wait_for_sleep(server: DebuggedServer, caught: Caught) -> Sleep:
    """What the server does while the thread is held. A server that stays awake must prove that its loop had
    the chance to sleep: a slow machine is no fix."""

    def slept(_: object) -> bool:
        return pass_on(server) or asleep(server)

    for step in (lambda: None, lambda: _ask_loop(server)):
        answered = step()
        bound = SLEEP_BOUND if answered is None else LOOK_AGAIN
        if server.wait_until(slept, bound):
            return Sleep.DIED if server.absorb() else Sleep.SLEPT
        if server.transitions(ENTERING) > caught.entered:
            return _announced(server)
    return Sleep.STAYED_AWAKE if answered else Sleep.UNCLEAR


def _announced(server: DebuggedServer) -> Sleep:
    """It said that it goes to sleep. One that waits for the held request (a fix can do that) comes to rest:
    no thread of it runs or wants to. One that neither sleeps nor rests is slow, and says nothing."""
    still = Stillness(server.pid, held=True)
    rested = server.wait_until(
        lambda _: pass_on(server) or (asleep_by_log(server) and still.look()), LOOP_DEADLINE
    )
    if server.absorb():
        return Sleep.DIED
    if asleep(server):
        return Sleep.SLEPT
    return Sleep.ANNOUNCED if rested else Sleep.UNFINISHED


def _ask_loop(server: DebuggedServer) -> bool:
    """Whether the queue's loop turns: /metrics goes through it without being work."""
    poke = Pending(server.port, METRICS, server.spec.api_key)
    end = time.monotonic() + LOOP_DEADLINE
    server.wait_until(lambda _: pass_on(server) or not poke.waiting, end - time.monotonic())
    return poke.answer is not None and poke.answer.status == 200
