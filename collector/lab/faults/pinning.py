"""Puts the moment of sleep into a request.

The queue loop looks at the idle limit when its one-second wait ends or when it is poked. GET /metrics
pokes it without counting as work. So: work sets the idle timer to zero; a poke shortly before the limit
starts a fresh one-second wait that reaches past the limit; the request is sent after the limit, finds
the server awake, and a second poke makes the loop go to sleep within a few milliseconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from collector.lab.faults.prompts import touch
from collector.lab.reference.client import Pending, Request
from collector.lab.reference.conditions import ENTERING
from collector.lab.reference.server import RunningServer

# The fresh wait starts this long before the limit and so ends 0.6 s after it, room for the request.
ALIGN_BEFORE = 0.4
SEND_AFTER = 0.1
METRICS = Request("GET", "/metrics")


@dataclass(frozen=True)
class Pinned:
    """The request under way, and when the poke was sent (seconds, CLOCK_MONOTONIC).

    ``early``: the server went to sleep before the request was sent, so nothing was pinned.
    """

    pending: Pending
    poked: float
    early: bool


def pin(server: RunningServer, request: Request, offset: float) -> Pinned:
    """Send ``request`` to a server whose idle limit has passed and poke it to sleep ``offset`` s later."""
    server.send(touch())
    limit = time.monotonic() + server.spec.idle_seconds
    before = server.transitions(ENTERING)
    _sleep_until(limit - ALIGN_BEFORE)
    server.send(METRICS)
    _sleep_until(limit + SEND_AFTER)
    early = server.transitions(ENTERING) > before
    server.note_threads()
    pending = server.begin(request)
    _sleep_until(limit + SEND_AFTER + offset)
    poked = time.monotonic()
    server.begin(METRICS)  # answered only when the loop is awake again, or never: nobody waits for it
    server.note_threads()
    return Pinned(pending, poked, early)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
