"""The sink towards a hub: HTTP, bounded in time and size whatever is at the other end.

http.client, because a deadline over a whole exchange needs the socket: a hub that sends a byte a second
never runs into a time-out of single reads.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit

from analyzers.bundle.folder import open_regular
from analyzers.contracts.outbox import INCIDENTS_PATH, AttachmentRow
from analyzers.errors import UserError
from collector.outbox.sinks import Accepted, Answer, Later, Outgoing, Refused

CONNECT_SECONDS = 10.0
EXCHANGE_SECONDS = 30.0  # a record has 20 KB: more than this is a hub that does not work
LEAST_RATE = 32 << 10  # bytes a second an attachment must move at: a slow uplink, and a bound on a stuck one
MAX_ANSWER = 64 << 10  # bytes; an answer names an id and some file names
MAX_WANTED = 100
STORED = (200, 201, 202)
RECORD_REFUSED = (400, 413, 422)
FILE_STORED = (200, 201, 202, 204)
FILE_REFUSED = (400, 404, 409, 410, 413, 415, 422)


@dataclass(frozen=True)
class Heard:
    """A hub's answer, its body no longer than the bound (``cut`` when it was)."""

    status: int
    body: bytes
    retry_after: float | None
    cut: bool = False


class HubSink:
    """Incidents to ``url`` (http or https, a path in front is kept). ``token`` is sent as a bearer token and
    never told. Raises UserError for an address that is none."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        name: str = "hub",
        ca_file: Path | None = None,
        seconds: float = EXCHANGE_SECONDS,
    ) -> None:
        self.name, self._seconds = name, seconds
        self._host, self._port, self._path, secure = _parts(url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._tls = ssl.create_default_context(cafile=ca_file) if secure else None
        except (OSError, ssl.SSLError) as error:
            remedy = "name a file of PEM certificates"
            raise UserError("the hub's ca_file cannot be used", where=str(ca_file), remedy=remedy) from error

    def send(self, outgoing: Outgoing) -> Answer:
        body = outgoing.to_json()
        headers = {"Content-Type": "application/json"}
        heard = self._exchange("POST", INCIDENTS_PATH, body, headers, self._seconds)
        if isinstance(heard, Later):
            return heard
        if heard.status in RECORD_REFUSED:
            return Refused(f"the hub refused it with {heard.status}")
        if heard.status not in STORED:
            return _later(heard)
        return _wanted(heard, outgoing.record.id)

    def attach(self, row: AttachmentRow, path: Path) -> Answer:
        where = f"{INCIDENTS_PATH}/{quote(row.incident, safe='')}/attachments/{quote(row.name, safe='')}"
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(row.size),
            "X-Content-SHA256": row.sha256,
        }
        with open_regular(path) as file:
            seconds = self._seconds + row.size / LEAST_RATE
            heard = self._exchange("PUT", where, file, headers, seconds)
        if isinstance(heard, Later):  # of this file, as far as can be told: the hub took the record
            return replace(heard, answered=True)
        if heard.status in FILE_STORED:
            return Accepted()
        return (
            Refused(f"the hub refused it with {heard.status}")
            if heard.status in FILE_REFUSED
            else _later(heard)
        )

    def close(self) -> None:
        """Nothing stays open between two calls."""

    def _exchange(
        self, method: str, path: str, body: bytes | IO[bytes], headers: Mapping[str, str], seconds: float
    ) -> Heard | Later:
        connection = self._connection()
        try:
            connection.connect()
            with _deadline(connection, seconds):
                whole = {**headers, **self._headers}
                with suppress(BrokenPipeError, ConnectionResetError):  # it may have said why it takes no more
                    connection.request(method, self._path + path, body=body, headers=whole)
                return _heard(connection.getresponse())
        except (OSError, HTTPException, ValueError) as error:
            return Later(f"the hub cannot be reached ({_why(error)})")
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        if self._tls is None:
            return HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)
        return HTTPSConnection(self._host, self._port, timeout=CONNECT_SECONDS, context=self._tls)


def _parts(url: str) -> tuple[str, int | None, str, bool]:
    """(host, port, path in front, TLS)."""
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError:
        found, port = urlsplit(""), None
    if found.scheme not in ("http", "https") or not found.hostname or found.username or found.query:
        remedy = "give it as https://HOST[:PORT][/PATH], the token in a file"
        raise UserError("the hub's address is none", where="hub.url", remedy=remedy)
    return found.hostname, port, found.path.rstrip("/"), found.scheme == "https"


@contextmanager
def _deadline(connection: HTTPConnection, seconds: float) -> Iterator[None]:
    """After ``seconds`` the socket is shut down: whatever is read or written then ends with an error."""
    held = connection.sock

    def end() -> None:
        try:
            held.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _heard(response: HTTPResponse) -> Heard:
    body = response.read(MAX_ANSWER + 1)
    asked = response.headers.get("Retry-After", "")
    after = float(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else None
    return Heard(response.status, body[:MAX_ANSWER], after, len(body) > MAX_ANSWER)


def _later(heard: Heard) -> Later:
    if 300 <= heard.status < 400:
        return Later(f"the hub's address redirects ({heard.status}): name where it leads to in hub.url")
    words = {401: ": see hub.token_file", 403: ": see hub.token_file", 404: ": is hub.url a hub's address?"}
    what = f"the hub answered {heard.status}{words.get(heard.status, '')}"
    return Later(what, heard.retry_after, answered=heard.status >= 500)


def _wanted(heard: Heard, ident: str) -> Answer:
    """A page of a proxy or a login form with status 200 is no receipt."""
    try:
        told = json.loads(heard.body) if not heard.cut else None
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or told.get("id") != ident or not isinstance(told.get("want", []), list):
        return Later("what answers there is no hub: see hub.url", answered=True)
    names = [name for name in told.get("want", []) if isinstance(name, str)]
    return Accepted(tuple(names[:MAX_WANTED]))


def _why(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (words or type(error).__name__)[:100].lower()
