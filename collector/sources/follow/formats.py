"""What container runtimes put around a line in their own log files: docker's json-file, and CRI's.

Docker: one JSON object a line, ``log`` ends in LF unless the line goes on in the next. CRI (containerd,
CRI-O, podman's k8s-file): ``TIME STREAM TAG TEXT``, tag P for a part of a line and F for its last part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol

from analyzers.logs.prefix import iso_seconds, loads
from analyzers.logs.text import MAX_LINE, decode
from collector.sources.follow.tail import Line

_CRI = re.compile(rb"(\d{4}-\d\d-\d\dT\S{8,32}) (stdout|stderr) ([PF])(?::[PF])* ?")


@dataclass(frozen=True)
class Printed:
    """A line as the program printed it; ``at`` where its first part begins in the file."""

    at: int
    data: bytes
    wall: float | None = None


class Format(Protocol):
    """``unfinished`` is the offset of the first part of a line that is not complete, else None."""

    @property
    def unfinished(self) -> int | None: ...

    def take(self, line: Line) -> Printed | None: ...

    def forget(self) -> None: ...


class Plain:
    """The program's own file."""

    unfinished: int | None = None

    def take(self, line: Line) -> Printed | None:
        return Printed(line.at, line.data)

    def forget(self) -> None:
        """Nothing is kept."""


@dataclass
class _Part:
    at: int
    data: bytearray = field(default_factory=bytearray)


class Wrapped:
    """A container's file: parts of each of its two streams are put together."""

    def __init__(self) -> None:
        self._parts: dict[str, _Part] = {}
        self.foreign = 0

    @property
    def unfinished(self) -> int | None:
        return min((part.at for part in self._parts.values()), default=None)

    def forget(self) -> None:
        self._parts.clear()

    def take(self, line: Line) -> Printed | None:
        taken = _docker(line.data) if line.data.startswith(b"{") else _cri(line.data)
        if taken is None:
            self.foreign += 1
            return None
        stream, wall, data, whole = taken
        part = self._parts.setdefault(stream, _Part(line.at))
        part.data += data[: MAX_LINE - len(part.data)]
        if not whole:
            return None
        del self._parts[stream]
        return Printed(part.at, bytes(part.data), wall)


_Taken = tuple[str, "float | None", bytes, bool]


def _docker(raw: bytes) -> _Taken | None:
    row = loads(decode(raw))
    if row is None or not isinstance(row.get("log"), str):
        return None
    text = str(row["log"])
    stream = "stderr" if row.get("stream") == "stderr" else "stdout"
    data = text.rstrip("\r\n").encode("utf-8", "replace").replace(b"\n", b" ")
    return stream, iso_seconds(str(row.get("time", ""))), data, text.endswith("\n")


def _cri(raw: bytes) -> _Taken | None:
    match = _CRI.match(raw)
    if match is None:
        return None
    wall = iso_seconds(match[1].decode("ascii", "replace"))
    return match[2].decode(), wall, raw[match.end() :].rstrip(b"\r"), match[3] == b"F"
