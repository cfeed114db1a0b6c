"""A plain HTTP client for one request to a reference server, in this thread or in one of its own."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import Any

from collector.lab.reference.ports import LOOPBACK

REQUEST_TIMEOUT = 10.0
# Largest part of an answer that is kept: reference prompts are answered in far less.
ANSWER_LIMIT = 4 << 20


@dataclass(frozen=True)
class Answer:
    """What came back. ``status`` None: nothing did, and ``error`` names why (an exception's class).

    ``sent`` and ``ended`` are seconds of CLOCK_MONOTONIC.
    """

    route: str
    status: int | None
    body: bytes
    error: str | None
    sent: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.sent

    @property
    def timed_out(self) -> bool:
        return self.error == "TimeoutError"

    def json(self) -> Any:
        """The body as JSON, or None when it is not."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True)
class Request:
    """One request; ``body`` is sent as JSON, ``raw`` as it stands."""

    method: str
    route: str
    body: Any = None
    raw: bytes | None = None
    timeout: float = REQUEST_TIMEOUT

    def payload(self) -> bytes | None:
        if self.raw is not None or self.body is None:
            return self.raw
        return json.dumps(self.body).encode()


def send(port: int, request: Request, api_key: str | None = None) -> Answer:
    """Send ``request`` and wait for its answer; every failure is an Answer, never an exception.

    ``request.timeout`` (seconds) bounds each wait for the peer, so a server that trickles bytes can
    take longer.
    """
    headers = {"Content-Type": "application/json"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=request.timeout)
    sent = time.monotonic()
    status, body, error = None, b"", None
    try:
        connection.request(request.method, request.route, request.payload(), headers)
        response = connection.getresponse()
        body = response.read(ANSWER_LIMIT)
        status = response.status
    except (OSError, http.client.HTTPException) as problem:
        error = type(problem).__name__
    finally:
        connection.close()
    return Answer(request.route, status, body, error, sent, time.monotonic())


class Pending:
    """A request under way in a thread of its own; giving up is the time-out of the request."""

    def __init__(self, port: int, request: Request, api_key: str | None = None) -> None:
        self.request = request
        self.answer: Answer | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(port, api_key), name="reference-client", daemon=True
        )
        self._thread.start()

    def _run(self, port: int, api_key: str | None) -> None:
        self.answer = send(port, self.request, api_key)
        self._done.set()

    @property
    def waiting(self) -> bool:
        return not self._done.is_set()

    def wait(self, timeout: float) -> Answer | None:
        """The answer, or None when there is none after ``timeout`` seconds."""
        self._done.wait(timeout)
        return self.answer
