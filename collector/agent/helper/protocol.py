"""The helper's messages: one JSON object in each packet of a SOCK_SEQPACKET socket, every field checked.

A request names an operation of ``OPERATIONS`` and, where it is about a server, that server by PID and start.
Nothing in it is a path, an address or a command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from collector.discovery.model import Ended, Found

MAX_REQUEST = 1024  # bytes; the longest sound one has some 150
MAX_REPLY = 96 << 10  # bytes: half of what a socket's default buffer takes in one packet
MAX_PID = 1 << 22  # PID_MAX_LIMIT of the kernel
MAX_START = 1e9  # seconds since boot
SUBSCRIBE, KMSG, SOCKDIAG = "subscribe", "kmsg", "sockdiag"
OUTPUTS, LOG, WAITS = "outputs", "log", "waits"
GENERAL = frozenset({SUBSCRIBE, KMSG})  # about no server
OPERATIONS = GENERAL | {SOCKDIAG, OUTPUTS, LOG, WAITS}
WORDS = frozenset({"owned", "reading", "main"})  # what WAITS may ask
LOG_FILE, OUTPUT, ERRORS = 0, 1, 2  # what LOG may ask: the file of --log-file, standard output and error
_FIELDS = {"op": str, "pid": int, "start": float, "number": int, "word": str}
_FOUND, _ENDED = TypeAdapter(Found), TypeAdapter(Ended)
# What a large server's description loses first, so that it fits a packet.
_SHEDDABLE: tuple[Mapping[str, Any], ...] = (
    {"args": ()},
    {"settings": (), "problems": ()},
    {"model_files": (), "listening": ()},
)


@dataclass(frozen=True)
class Request:
    """One sound request. ``start``: seconds since boot, as in Incarnation; ``number`` which file;
    ``word`` which wait."""

    op: str
    pid: int = 0
    start: float = 0.0
    number: int = 0
    word: str = ""


def request_bytes(request: Request) -> bytes:
    """For the socket."""
    return json.dumps(vars(request), separators=(",", ":")).encode()


def parse_request(data: bytes) -> Request | None:
    """None for anything that is not wholly sound."""
    if len(data) > MAX_REQUEST:
        return None
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not said.keys() <= _FIELDS.keys():
        return None
    if not all(_typed(value, _FIELDS[name]) for name, value in said.items()) or "op" not in said:
        return None
    request = Request(**said)
    return request if _sound(request) else None


def _typed(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) if kind is float else isinstance(value, kind)


def _sound(request: Request) -> bool:
    if request.op not in OPERATIONS or not 0 <= request.number < 64:
        return False
    if request.op in GENERAL:
        return not request.word
    word_fits = request.word in WORDS if request.op == WAITS else not request.word
    return word_fits and 0 < request.pid <= MAX_PID and 0 <= request.start < MAX_START


def reply_bytes(reply: Mapping[str, Any]) -> bytes:
    """For the socket; a reply that no packet takes becomes an error."""
    data = json.dumps(reply, separators=(",", ":")).encode()
    return data if len(data) <= MAX_REPLY else b'{"error":"the answer is too large"}'


def parse_reply(data: bytes) -> Mapping[str, Any] | None:
    """What the helper said; None for what no helper says."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def found_bytes(kind: str, found: Found) -> bytes:
    """``kind`` and a server, its longest parts left out where no packet takes them. Raises ValueError when it
    does not fit at all."""
    for shed in ({}, *_SHEDDABLE):
        found = Found(**{**vars(found), **shed})
        data = _wrapped(kind, _FOUND.dump_json(found))
        if len(data) <= MAX_REPLY:
            return data
    raise ValueError("a server whose description fits no message")


def ended_bytes(kind: str, ended: Ended) -> bytes:
    """``kind`` and an end. The server is named, not described: the other side knows it."""
    found = ended.found
    for shed in ({}, *_SHEDDABLE):
        found = Found(**{**vars(found), **shed})
        data = _wrapped(kind, _ENDED.dump_json(Ended(**{**vars(ended), "found": found})))
        if len(data) <= MAX_REPLY:
            return data
    raise ValueError("an end whose description fits no message")


def _wrapped(kind: str, body: bytes) -> bytes:
    return b'{"%s":%s}' % (kind.encode(), body)


def found_of(said: object) -> Found | None:
    """A server out of a message; None for anything else."""
    try:
        return _FOUND.validate_python(said)
    except ValidationError:
        return None


def ended_of(said: object) -> Ended | None:
    """An end out of a message; None for anything else."""
    try:
        return _ENDED.validate_python(said)
    except ValidationError:
        return None
