"""A gdb/MI conversation with a program that runs on while we talk: answers by token, events as they come."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from analyzers.stacks.mi import LineBuffer, MiError, parse_line

# One answer of a gdb that reads a file or stops a dozen threads takes a second on a busy machine.
ASK_DEADLINE = 60.0
READ_SIZE = 1 << 16
# Events nobody has taken yet: a server makes a dozen threads, a thread bomb is forgotten at its beginning.
EVENTS_LIMIT = 10_000
SAID_LIMIT = 50
_RECORD = re.compile(rb"^(\d*)([\^*=])([a-z-]+)(,.*)?$", re.DOTALL)
RESULT, STOPPED, RUNNING = "^", "stopped", "running"


@dataclass(frozen=True)
class Record:
    """One line of gdb. ``kind`` is ^ (a command's result), * (the program) or = (news); ``name`` its class,
    like "done", "stopped", "thread-group-started"."""

    kind: str
    name: str
    token: int | None = None
    payload: dict[str, Any] = field(default_factory=dict)

    @property
    def thread(self) -> str | None:
        """gdb's number of the thread it speaks of."""
        said = self.payload.get("thread-id")
        return said if isinstance(said, str) else None

    @property
    def reason(self) -> str | None:
        """Why a thread stopped; None for other records."""
        return str(self.payload.get("reason", "")) if self.name == STOPPED else None


def parse_record(line: bytes) -> Record | None:
    """A result, program or news line; None for malformed lines and all else that is printed."""
    found = _RECORD.match(line)
    if found is None:
        return None
    body: dict[str, Any] = {}
    if found[4]:
        # an event has the grammar of a result: the checked parser reads it as one
        parsed = parse_line(b"^done" + found[4])
        payload = parsed.get("payload") if parsed else None
        if not isinstance(payload, dict):
            return None
        body = payload
    return Record(found[2].decode(), found[3].decode(), int(found[1]) if found[1] else None, body)


class MiConversation:
    """``pipe_in`` is gdb's standard input, ``pipe_out`` its output, read in a thread until it ends.

    ``changed`` is called after each piece of output. Commands come from one thread only.
    """

    def __init__(self, pipe_in: IO[bytes], pipe_out: IO[bytes], changed: Callable[[], None]) -> None:
        self._in = pipe_in
        self._out = pipe_out
        self._changed = changed
        self._token = 0
        self._results: dict[int, Record] = {}
        self._events: deque[Record] = deque(maxlen=EVENTS_LIMIT)
        self._arrived = threading.Condition()
        self.said: deque[str] = deque(maxlen=SAID_LIMIT)
        self.ended = False
        threading.Thread(target=self._read, name="directed-mi", daemon=True).start()

    def ask(self, command: str, deadline: float = ASK_DEADLINE) -> dict[str, Any]:
        """Send one MI command and wait for its own result's payload.

        Raises MiError with gdb's words when it refuses, "time" or "ended" when it does not answer.
        """
        self._token += 1
        self._send(f"{self._token}{command}\n")
        with self._arrived:
            done = self._arrived.wait_for(lambda: self._token in self._results or self.ended, deadline)
            result = self._results.pop(self._token, None)
        if result is None:
            raise MiError("ended" if done else "time")
        if result.name == "error":
            raise MiError(str(result.payload.get("msg") or "gdb refused the command"))
        return result.payload

    def console(self, command: str) -> None:
        """A command of gdb's own language, as typed. Raises as ``ask``."""
        quoted = command.replace("\\", "\\\\").replace('"', '\\"')
        self.ask(f'-interpreter-exec console "{quoted}"')

    def events(self) -> list[Record]:
        """What happened since the last call, oldest first."""
        with self._arrived:
            taken = list(self._events)
            self._events.clear()
        return taken

    def wait(self, seconds: float) -> None:
        """Until something happens, at most so long."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._events or self.ended, seconds)

    def _send(self, line: str) -> None:
        if any(ord(char) < 32 for char in line[:-1]):
            raise MiError("a command is one line")
        try:
            self._in.write(line.encode())
            self._in.flush()
        except (OSError, ValueError):
            raise MiError("ended") from None

    def _read(self) -> None:
        lines = LineBuffer()
        fileno = self._out.fileno()
        with self._out:
            while chunk := os.read(fileno, READ_SIZE):
                if not lines.feed(chunk):
                    break
                for line in lines.take():
                    self._take(line)
                self._changed()
        with self._arrived:
            self.ended = True
            self._arrived.notify_all()
        self._changed()

    def _take(self, line: bytes) -> None:
        record = parse_record(line)
        with self._arrived:
            if record is None:
                if line[:1] in (b"&", b"~"):
                    self.said.append(line.decode("utf-8", "replace"))
                return
            if record.kind == RESULT and record.token is not None:
                self._results[record.token] = record
            elif record.kind != RESULT:
                self._events.append(record)
            self._arrived.notify_all()
