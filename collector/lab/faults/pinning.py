"""Puts the moment of sleep into a request.

The queue loop looks at the idle limit when its one-second wait ends or when it is poked. GET /metrics
pokes it without counting as work (from b10519). So: work sets the idle timer to zero; a poke shortly before
the limit starts a fresh one-second wait that reaches past the limit; the request is sent after the limit,
finds the server awake, and a second poke makes the loop go to sleep within a few milliseconds.

Where /metrics counts as work, only the loop's own moment is left: whole seconds after the last work, plus a
delay that is the same each time and is learnt (:func:`pin_to_nature`).
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from collector.lab.faults.prompts import touch
from collector.lab.reference.client import Pending, Request
from collector.lab.reference.conditions import ENTERING
from collector.lab.reference.output import Line
from collector.lab.reference.ports import LOOPBACK
from collector.lab.reference.server import RunningServer

# The fresh wait starts this long before the limit and so ends 0.6 s after it, room for the request.
ALIGN_BEFORE = 0.4
SEND_AFTER = 0.1
METRICS = Request("GET", "/metrics")
# A poke that meets a sleeping loop of an old build is never answered: its reader must end all the same.
POKE_TIMEOUT = 5.0
# The first bytes hold the status line, which is all that is wanted of them.
POKE_BYTES = 4096
ECHO = "server is"  # newer builds print the sleep line a second time, as the server's own


class Poke:
    """One GET /metrics on a connection that stands already, so that nothing but the bytes is left to send.

    ``answered`` is when the first bytes of a 200 came back (seconds, CLOCK_MONOTONIC), None until then: the
    loop has handled the poke.
    """

    def __init__(self, server: RunningServer) -> None:
        self.answered: float | None = None
        key = f"Authorization: Bearer {server.spec.api_key}\r\n" if server.spec.api_key else ""
        self._bytes = f"GET /metrics HTTP/1.1\r\nHost: {LOOPBACK}\r\n{key}Connection: close\r\n\r\n".encode()
        self._socket: socket.socket | None = None
        with suppress(OSError):  # a server that died meanwhile is seen by its ending
            self._socket = socket.create_connection((LOOPBACK, server.port), timeout=POKE_TIMEOUT)

    def fire(self) -> float:
        """Send it; returns the moment (seconds, CLOCK_MONOTONIC). Nobody need wait for the answer."""
        moment = time.monotonic()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.sendall(self._bytes)
            threading.Thread(target=self._read, name="reference-poke", daemon=True).start()
        return moment

    def close(self) -> None:
        """For a poke that was never fired."""
        if self._socket is not None:
            self._socket.close()

    def _read(self) -> None:
        assert self._socket is not None  # noqa: S101 - fire() has checked
        with self._socket as connection, suppress(OSError):
            first = connection.recv(POKE_BYTES)
            if first.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
                self.answered = time.monotonic()


@dataclass(frozen=True)
class Pinned:
    """The request under way, and when the poke was sent (seconds, CLOCK_MONOTONIC).

    ``early``: the server went to sleep before the request was sent, so nothing was pinned. ``sent`` is when
    the request was, ``wanted`` when sleep should come.
    """

    pending: Pending
    poked: float
    early: bool
    sent: float = 0.0
    wanted: float = 0.0
    poke: Poke | None = None


@dataclass(frozen=True)
class Dry:
    """A sleep without any request in flight: what a pin's correction is learnt from."""

    moment: float
    line: Line | None

    @property
    def delay(self) -> float | None:
        """How long after ``moment`` the sleep line arrived, seconds; None without a line."""
        return None if self.line is None else self.line.mono - self.moment


def pin(server: RunningServer, request: Request, offset: float, *, lead: float = 0.0) -> Pinned:
    """Send ``request`` to a server whose idle limit has passed and poke it to sleep ``offset`` s later.

    The poke goes ``lead`` seconds ahead: what it usually takes from the poke to the sleep line's arrival.
    """
    start = time.monotonic()
    limit = _align(server)
    poke = Poke(server)
    _sleep_until(limit + SEND_AFTER)
    early = entered_since(server, start) is not None
    server.note_threads()
    sent = time.monotonic()
    pending = server.begin(request)
    _sleep_until(sent + offset - lead)
    poked = poke.fire()
    server.note_threads()
    return Pinned(pending, poked, early, sent, sent + offset, poke)


def pin_to_nature(server: RunningServer, request: Request, offset: float, *, delay: float) -> Pinned:
    """Send ``request`` ``offset`` seconds before the moment at which the loop falls asleep by itself.

    ``delay``: how much later than the idle limit after the last work that is, as learnt from
    :func:`dry_nature`.
    """
    start = time.monotonic()
    limit = server.send(touch()).ended + server.spec.idle_seconds
    _sleep_until(limit + delay - offset)
    early = entered_since(server, start) is not None
    server.note_threads()
    sent = time.monotonic()
    return Pinned(server.begin(request), limit + delay, early, sent, sent + offset)


def dry_poke(server: RunningServer, deadline: float) -> Dry:
    """Poke a server past its limit with nothing else in flight; wait ``deadline`` s for the sleep line.

    A line that came before the poke gives a negative delay.
    """
    start = time.monotonic()
    limit = _align(server)
    poke = Poke(server)
    _sleep_until(limit + SEND_AFTER)
    moment = poke.fire()
    return Dry(moment, _await_line(server, start, deadline))


def dry_nature(server: RunningServer, deadline: float) -> Dry:
    """Let the server fall asleep by itself; ``moment`` is its idle limit."""
    start = time.monotonic()
    limit = server.send(touch()).ended + server.spec.idle_seconds
    return Dry(limit, _await_line(server, start, deadline + server.spec.idle_seconds))


def entered_since(server: RunningServer, moment: float) -> Line | None:
    """The first sleep line that arrived after ``moment`` (CLOCK_MONOTONIC); looks at newer lines only."""
    found = None
    for line in reversed(server.output.lines()):
        if line.mono <= moment:
            break
        if ENTERING in line.text and ECHO not in line.text:
            found = line
    return found


def _await_line(server: RunningServer, start: float, deadline: float) -> Line | None:
    server.wait_until(lambda each: entered_since(each, start) is not None, deadline)
    return entered_since(server, start)


def _align(server: RunningServer) -> float:
    """Work, then a poke shortly before the idle limit; returns the limit (seconds, CLOCK_MONOTONIC)."""
    limit = server.send(touch()).ended + server.spec.idle_seconds
    _sleep_until(limit - ALIGN_BEFORE)
    server.send(METRICS)
    return limit


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
