"""The agent's side of the helper's socket: requests that are answered or given up within a second."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from collector.agent.helper.protocol import MAX_REPLY, Request, parse_reply, request_bytes
from collector.discovery.model import Found

TIMEOUT = 1.0  # seconds; the helper answers within a millisecond, and after a long look of discovery in 0.2
RETRY_SECONDS = 2.0  # after a failure: the helper's restart takes half a second
GONE = "the privileged helper does not answer"


class HelperError(Exception):
    """It does not answer, or refuses; one line."""


def connect(path: Path, timeout: float | None = TIMEOUT) -> socket.socket:
    """A connection. Raises OSError."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.settimeout(timeout)
        link.connect(str(path))
    except BaseException:
        link.close()
        raise
    return link


def take(link: socket.socket) -> tuple[bytes, list[int]]:
    """One packet and its descriptors, which are closed when it was cut. Raises OSError."""
    data, descriptors, flags, _ = socket.recv_fds(link, MAX_REPLY + 1, 4)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError("a packet was cut")
    return data, descriptors


class HelperLink:
    """Requests over one connection, which is opened again after a failure; any thread may ask.

    ``problem`` is one line while the helper cannot be reached.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._link: socket.socket | None = None
        self._not_before = 0.0
        self.problem: str | None = None

    def ask(self, request: Request, *, timeout: float = TIMEOUT) -> tuple[Mapping[str, Any], list[int]]:
        """The answer and its descriptors, which the caller closes. Raises HelperError."""
        with self._lock:
            try:
                data, descriptors = self._exchange(request, timeout)
            except OSError as problem:
                self._failed(problem)
                raise HelperError(GONE) from None
        told = parse_reply(data)
        if told is not None and "error" not in told:
            return told, descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        raise HelperError(str((told or {}).get("error", "it answers nonsense"))[:200])

    def descriptor(self, request: Request, *, timeout: float = TIMEOUT) -> int:
        """The one descriptor of an answer. Raises HelperError."""
        _, descriptors = self.ask(request, timeout=timeout)
        if len(descriptors) == 1:
            return descriptors[0]
        for each in descriptors:
            os.close(each)
        raise HelperError("it gave no descriptor")

    def close(self) -> None:
        with self._lock, suppress(OSError):
            if self._link is not None:
                self._link.close()
            self._link = None

    def _exchange(self, request: Request, timeout: float) -> tuple[bytes, list[int]]:
        if self._link is None:
            if time.monotonic() < self._not_before:
                raise OSError("tried a moment ago")
            self._link = connect(self._path)
        self._link.settimeout(timeout)
        self._link.send(request_bytes(request))
        data, descriptors = take(self._link)
        if not data:
            raise OSError("it closed the connection")
        self.problem = None
        return data, descriptors

    def _failed(self, problem: OSError) -> None:
        """An answer that comes later must not be taken for the next request's: the connection is given up."""
        if self._link is not None:
            self._link.close()
            self._link = None
            self._not_before = time.monotonic()  # at once the first time: it may just have been restarted
        else:
            self._not_before = max(self._not_before, time.monotonic() + RETRY_SECONDS)
        self.problem = f"{GONE} at {self._path} ({problem.strerror or problem})"


def about(op: str, found: Found, *, number: int = 0, word: str = "") -> Request:
    """A request about a server."""
    return Request(op, found.pid, found.incarnation.start_time or 0.0, number, word)
