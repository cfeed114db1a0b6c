"""A gdb/MI transport that matches tokens: each command's answer is known when it comes, so nothing waits
for quiet. Only pygdbmi's line parser is used; its controller waits 0.2 s after every command.
"""

from __future__ import annotations

import os
import re
import selectors
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pygdbmi import gdbmiparser

from analyzers.stacks.confine import READ_SIZE, Running

LINE_BYTES = 4 << 20  # one answer; 64 frames with long template names are 100 KB
ANSWER_BYTES = 16 << 20  # everything gdb may say to one command
MAX_DEPTH = 64  # of nested tuples and lists; gdb's own reach about six
_CONSOLE = re.compile(r'~"(?:[^"\\]|\\.)*"', re.DOTALL)
_RECORD = re.compile(r"\d*\^[a-z]+((?:,.*)?)", re.DOTALL)
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|([A-Za-z_][\w.-]*=)|([{}\[\],])', re.DOTALL)
_COMPOUND = re.compile(r"\{(?:kv(?:,kv)*)?\}|\[(?:k?v(?:,k?v)*)?\]")
_RESULTS = re.compile(r"(?:,kv)*")
_RESULT = re.compile(rb"^(\d+)\^(done|running|connected|error|exit)")


class MiError(Exception):
    """gdb did not answer the command: ``reason`` is "time", "output", "ended" or gdb's own error text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Answer:
    """One command's result. ``payload`` is the parsed tuple of results, ``console`` what gdb printed."""

    payload: dict[str, Any]
    console: tuple[str, ...] = ()


@dataclass
class MiSession:
    """A running gdb in MI mode. ``deadline`` is a monotonic time that no command outlives."""

    child: Running
    deadline: float
    _token: int = 0
    _lines: LineBuffer = field(default_factory=lambda: LineBuffer())

    def ask(self, command: str) -> Answer:
        """Send one MI command (``-stack-list-frames 0 9``) and wait for its own answer.

        Raises MiError when gdb refuses, ends, says too much or runs past the deadline.
        """
        if not command or any(ord(char) < 32 or ord(char) == 127 for char in command):
            raise MiError("a command is one line")
        self._token += 1
        self._send(f"{self._token}{command}\n".encode())
        console: list[str] = []
        for line in self._each_line():
            result = _RESULT.match(line)
            if result and int(result[1]) == self._token:
                return _answer(line, result[2].decode(), tuple(console))
            if line.startswith(b"~") and (record := parse_line(line)):
                console.append(str(record.get("payload") or ""))
        raise MiError("ended")

    def _send(self, data: bytes) -> None:
        pipe = self.child.process.stdin
        if pipe is None:
            raise MiError("ended")
        try:
            pipe.write(data)
            pipe.flush()
        except OSError as error:
            raise MiError("ended") from error

    def _each_line(self) -> Iterator[bytes]:
        said = 0
        while True:
            for line in self._lines.take():
                said += len(line)
                if said > ANSWER_BYTES:
                    raise MiError("output")
                yield line
            chunk = self._read()
            if not chunk:
                return
            if not self._lines.feed(chunk):
                raise MiError("output")

    def _read(self) -> bytes:
        """The next bytes gdb says; empty at its end. Its error stream is emptied on the way."""
        streams = (self.child.process.stdout, self.child.process.stderr)
        with selectors.DefaultSelector() as selector:
            for stream in streams:
                if stream is not None and not stream.closed:
                    selector.register(stream, selectors.EVENT_READ)
            while True:
                ready = selector.select(max(0.0, self.deadline - time.monotonic()))
                if not ready:
                    raise MiError("time")
                for key, _ in ready:
                    chunk = os.read(key.fd, READ_SIZE)
                    if key.fileobj is streams[0]:
                        return chunk
                    if not chunk:
                        selector.unregister(key.fileobj)


@dataclass
class LineBuffer:
    """Bytes in, whole lines out, with a bound on a line that never ends."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> bool:
        """Add bytes; False when an unfinished line has grown past LINE_BYTES."""
        self._rest += chunk
        return len(self._rest) <= LINE_BYTES or b"\n" in self._rest

    def take(self) -> Iterator[bytes]:
        """The finished lines, without their ends."""
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[:end]).rstrip(b"\r")
            del self._rest[: end + 1]
            yield line


def parse_line(line: bytes) -> dict[str, Any] | None:
    """A result or console line by pygdbmi, or None where it is neither, or not well formed."""
    text = line.decode("utf-8", "replace")
    if not well_formed(text):
        return None
    try:
        record = gdbmiparser.parse_response(text)
    except Exception:  # noqa: BLE001 - the parser raises bare exceptions on malformed lines
        return None
    return record if isinstance(record, dict) else None


def well_formed(text: str) -> bool:
    """True for a console line or a result record by MI's grammar.

    Checked first because the parser loops for ever on some malformed input (found by a property test),
    and what gdb prints can be shaped by the names in a stranger's core.
    """
    if _CONSOLE.fullmatch(text):
        return True
    record = _RECORD.fullmatch(text)
    if record is None:
        return False
    kinds, at = list[str](), 0
    while at < len(record[1]):
        token = _TOKEN.match(record[1], at)
        if token is None:
            return False
        kinds.append("v" if token[1] else "k" if token[2] else token[3])
        at = token.end()
    return _is_results("".join(kinds))


def _is_results(kinds: str) -> bool:
    """Reduces tuples and lists to values, innermost first: k is a name with its "=", v a value."""
    for _ in range(MAX_DEPTH):
        reduced = _COMPOUND.sub("v", kinds)
        if reduced == kinds:
            break
        kinds = reduced
    return bool(_RESULTS.fullmatch(kinds))


def _answer(line: bytes, kind: str, console: tuple[str, ...]) -> Answer:
    record = parse_line(line)
    payload = record.get("payload") if record else None
    fields = payload if isinstance(payload, dict) else {}
    if kind == "error":
        raise MiError(str(fields.get("msg") or "gdb refused the command"))
    return Answer(fields, console)
