"""What one can wait for on a running reference server. Each condition is cheap and disturbs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from collector.lab.reference.client import Request

if TYPE_CHECKING:
    from collector.lab.reference.server import RunningServer

Condition = Callable[["RunningServer"], bool]
ENTERING = "entering sleeping state"
EXITING = "exiting sleeping state"
# A probe's time-out: a live server answers in a millisecond, one that is loading holds the line.
PROBE_TIMEOUT = 1.0


def ready(server: RunningServer) -> bool:
    """GET /health answers 200: the model is loaded. Never touches the queue."""
    return _status(server, "/health") == 200


def looping(server: RunningServer) -> bool:
    """Ready, and the queue loop runs: GET /metrics passes through it without counting as work.

    Health alone comes too early: a stop that reaches a hosted server before its loop runs is lost, and
    the server sleeps on (5 of 7 stops within 3 ms of readiness). Without metrics, health must do.
    """
    return ready(server) and (not server.spec.metrics or _status(server, "/metrics") == 200)


def _status(server: RunningServer, route: str) -> int | None:
    return server.send(Request("GET", route, timeout=PROBE_TIMEOUT)).status


def exited(server: RunningServer) -> bool:
    """The process has ended and, under a debugger, its core has been saved."""
    return server.finished


def asleep_by_log(server: RunningServer) -> bool:
    """The last transition line is the one into sleep. It comes BEFORE the unload it names."""
    telling = [line.text for line in server.output.lines() if ENTERING in line.text or EXITING in line.text]
    return bool(telling) and ENTERING in telling[-1]


def asleep_by_props(server: RunningServer) -> bool:
    """GET /props says ``is_sleeping``. It neither wakes the server nor counts as work, but it waits
    while the model unloads: a True here means the unload is over."""
    answer = server.send(Request("GET", "/props", timeout=PROBE_TIMEOUT)).json()
    return isinstance(answer, dict) and answer.get("is_sleeping") is True


def asleep(server: RunningServer) -> bool:
    """Both witnesses: the line first, so that an awake server is not probed at all."""
    return asleep_by_log(server) and asleep_by_props(server)


def lines(text: str, count: int = 1) -> Condition:
    """At least ``count`` log lines contain ``text``."""
    return lambda server: server.output.count(text) >= count


def sleeps(count: int) -> Condition:
    """The server went to sleep ``count`` times; newer builds print two lines for each time."""

    def told(server: RunningServer) -> bool:
        entries = server.transitions(ENTERING)
        return entries >= count

    return told
