"""Sends one request into one state of a server, and finds out whether the state was really met.

What tells the states apart: the loop's two log lines, which come before the act they name, and GET /props,
which waits for the queue's mutex while the model is freed or loaded, whereas GET /health never touches it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from analyzers.contracts.routes import ASLEEP, TWO_WAKERS, UNLOADING, WAKING
from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import DEATH_DEADLINE
from collector.lab.reference.client import Answer, Pending, Request
from collector.lab.reference.conditions import ENTERING, EXITING, asleep, exited
from collector.lab.reference.output import Line
from collector.lab.reference.server import RunningServer
from collector.lab.verify.routes.table import Route
from collector.lab.verify.routes.wide import Widths

IDLE_SECONDS = 1
# Sleep comes one to two seconds after the last work; a busy machine is late.
SLEEP_DEADLINE = 20.0
# Longest wait for an answer: the wide model is loaded in half a second, in ten times that on a busy machine.
PATIENCE = 30.0
# After this long without an answer the server is asked whether it sleeps: then the request is stranded.
STRANDED_AFTER = 5.0
# A probe that took this many times as long as the one that needs no mutex was held up by it.
HELD_UP = 3.0
# The act must end so long after the sending: longer than a request takes to be accepted (1-2 ms).
LEAD = 0.010
# Two requests this close together are at once: far less than the wake they must share.
TOGETHER = 0.020
PROPS = Request("GET", "/props", timeout=PATIENCE)
HEALTH = Request("GET", "/health", timeout=PATIENCE)
WAKER = Request("GET", "/slots", timeout=PATIENCE)


@dataclass(frozen=True)
class Shot:
    """One request as it went. ``answer`` None: none came while it was watched; ``pending`` then still waits.

    ``woken``: how often the server had left its sleep when the request was sent.
    """

    pending: Pending
    reached: bool
    woken: int
    why_not: str = ""
    other: Pending | None = None

    @property
    def answer(self) -> Answer | None:
        return self.pending.answer


Shoot = Callable[[RunningServer, Route, Widths], Shot]


def fall_asleep(server: RunningServer) -> bool:
    """Wait until the server sleeps and its model is freed; False when it does not come to that."""
    return (
        server.wait_until(lambda each: each.finished or asleep(each), SLEEP_DEADLINE) and not server.finished
    )


def into_sleep(server: RunningServer, route: Route, widths: Widths) -> Shot:
    """Send to a sleeping server; the caller has made sure that it sleeps."""
    woken = server.transitions(EXITING)
    pending = server.begin(route.request(PATIENCE))
    watch(server, pending)
    return Shot(pending, True, woken)


def into_unload(server: RunningServer, route: Route, widths: Widths) -> Shot:
    """Keep the server awake with a touch, wait for the line, and send at once."""
    server.send(touch())
    line = _next_line(server, ENTERING)
    woken = server.transitions(EXITING)  # the touch may have woken it as well
    pending = server.begin(route.request(PATIENCE))
    if line is None:
        return _missed(server, pending, woken, "the server did not go to sleep")
    return _held_shot(server, line, woken, [pending], "unload", widths.unloaded)


def into_wake(server: RunningServer, route: Route, widths: Widths) -> Shot:
    """Wake a sleeping server by a call of our own, wait for the line, and send at once."""
    waker: list[Pending] = []
    line = _next_line(server, EXITING, lambda: waker.append(server.begin(WAKER)))
    woken = server.transitions(EXITING)
    pending = server.begin(route.request(PATIENCE))
    if line is None:
        return _missed(server, pending, woken, "the server did not wake")
    return _held_shot(server, line, woken, [pending, *waker], "reload", widths.reloaded)


def _held_shot(
    server: RunningServer,
    line: Line,
    woken: int,
    requests: list[Pending],
    what: str,
    lasted: Callable[[float], None],
) -> Shot:
    """The first of ``requests``, sent at ``line`` when ``what`` began; it ``lasted`` until /props answers."""
    held = _held_up(server)
    for each in requests:
        watch(server, each)
    if held is None:
        return Shot(requests[0], False, woken, f"the {what} was over before the request arrived")
    if not server.finished:
        lasted(held - line.mono)
    return Shot(requests[0], _within(requests[0], held), woken, f"the {what} ended as the request was sent")


def two_wakers(server: RunningServer, route: Route, widths: Widths) -> Shot:
    """Send the request and a completion to a sleeping server at the same moment."""
    woken = server.transitions(EXITING)
    pending = server.begin(route.request(PATIENCE))
    other = server.begin(Request("POST", "/completion", touch().body, timeout=PATIENCE))
    watch(server, pending)
    watch(server, other)
    first, second = pending.answer, other.answer
    apart = abs(first.sent - second.sent) if first and second else 0.0
    return Shot(pending, apart <= TOGETHER, woken, f"the two were sent {apart * 1000:.0f} ms apart", other)


SHOTS: dict[str, Shoot] = {
    ASLEEP: into_sleep,
    UNLOADING: into_unload,
    WAKING: into_wake,
    TWO_WAKERS: two_wakers,
}


def watch(server: RunningServer, pending: Pending) -> None:
    """Wait for the answer or the end of the server, and no longer than it takes to see that neither comes.

    A broken connection announces an end: the kernel may take seconds to write the core.
    """
    server.wait_until(lambda each: each.finished or not pending.waiting, STRANDED_AFTER)
    if pending.waiting and not server.finished and not asleep(server):
        server.wait_until(lambda each: each.finished or not pending.waiting, PATIENCE)
    broken = pending.answer is not None and pending.answer.status is None
    if broken or server.dumping:
        server.wait_until(exited, DEATH_DEADLINE if server.dumping else STRANDED_AFTER)
    if server.finished:
        pending.wait(STRANDED_AFTER)


def _next_line(server: RunningServer, phrase: str, act: Callable[[], object] = lambda: None) -> Line | None:
    """The next line of the loop with ``phrase`` after ``act``; None when it does not come."""
    before = server.transitions(phrase)
    act()
    server.wait_until(lambda each: each.finished or each.transitions(phrase) > before, SLEEP_DEADLINE)
    told = [line for line in server.output.lines() if phrase in line.text and "server is" not in line.text]
    return told[before] if len(told) > before else None


def _held_up(server: RunningServer) -> float | None:
    """When the queue's mutex became free (CLOCK_MONOTONIC), or None when it already was. A server that died
    with the probe waiting had not let it go before."""
    probe = server.begin(PROPS)
    health = server.send(HEALTH)
    probe.wait(PATIENCE)
    answer = probe.answer
    if answer is None or answer.seconds < max(LEAD, HELD_UP * health.seconds):
        return None
    return answer.ended


def _within(pending: Pending, end: float) -> bool:
    """Sent so long before ``end`` that it had arrived. A request that is not answered has no time of sending:
    it was begun before the probe that was held up until ``end``."""
    answer = pending.answer
    return answer is None or answer.sent + LEAD <= end


def _missed(server: RunningServer, pending: Pending, woken: int, why: str) -> Shot:
    watch(server, pending)
    return Shot(pending, False, woken, why)
