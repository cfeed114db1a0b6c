"""A server's output: every line stamped on arrival, and the raw bytes kept in a file."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

CHUNK = 1 << 16
# Longest part of one line that is kept in memory; the file keeps all of it.
LINE_LIMIT = 1 << 16
# Lines kept in memory: hours of a normal server; a flood at full verbosity forgets its beginning.
LINES_LIMIT = 100_000
# The raw file ends here: a reference server prints kilobytes, another program may print without end.
FILE_LIMIT = 256 << 20
# Level E of the server's own log, and what ggml and the C++ runtime print when they give up.
_FAILURE = re.compile(r"^[\d.]+ E |GGML_ASSERT|GGML_ABORT|terminate called|what\(\):|^HOSTED this wheel")


@dataclass(frozen=True)
class Line:
    """One line without its end; ``wall`` is Unix seconds, ``mono`` seconds of CLOCK_MONOTONIC."""

    text: str
    wall: float
    mono: float


class Output:
    """Reads a pipe in a thread of its own until it ends; ``changed`` is called after each chunk."""

    def __init__(self, pipe: BufferedReader, copy: Path, changed: Callable[[], None]) -> None:
        self.path = copy
        self._pipe = pipe
        self._file = copy.open("wb", buffering=0)
        self._changed = changed
        self._lines: deque[Line] = deque(maxlen=LINES_LIMIT)
        self._rest = b""
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="reference-output", daemon=True)
        self._thread.start()

    def lines(self) -> list[Line]:
        """All complete lines so far, oldest first."""
        with self._guard:
            return list(self._lines)

    def count(self, text: str) -> int:
        """How many lines contain ``text``."""
        return sum(text in line.text for line in self.lines())

    def first(self, text: str, skip: int = 0) -> Line | None:
        """The line that contains ``text``, after ``skip`` others that do."""
        found = [line for line in self.lines() if text in line.text]
        return found[skip] if len(found) > skip else None

    def telling_text(self) -> str:
        """The last line that speaks of a failure, else the last line: after a failure servers print on."""
        failures = [line.text.strip() for line in self.lines() if _FAILURE.search(line.text)]
        return printable(failures[-1]) if failures else self.last_text()

    def last_text(self) -> str:
        """The last line with something in it, free of control characters, or a note that there is none."""
        spoken = [line.text.strip() for line in self.lines() if line.text.strip()]
        return printable(spoken[-1]) if spoken else "no output at all"

    def finish(self, timeout: float) -> None:
        """Wait until the pipe has ended, at most ``timeout`` seconds; grandchildren can keep it open."""
        self._thread.join(timeout)

    def _read(self) -> None:
        written = 0
        with self._pipe as pipe, self._file as file:
            while chunk := pipe.read1(CHUNK):
                wall, mono = time.time(), time.monotonic()
                if (written := written + len(chunk)) <= FILE_LIMIT:
                    file.write(chunk)
                self._take(chunk, wall, mono)
                self._changed()
        self._take(b"\n" if self._rest else b"", time.time(), time.monotonic())
        self._changed()

    def _take(self, chunk: bytes, wall: float, mono: float) -> None:
        *whole, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[:LINE_LIMIT]
        with self._guard:
            for raw in whole:
                text = raw[:LINE_LIMIT].decode("utf-8", "replace")
                self._lines.append(Line(text.rstrip("\r"), wall, mono))


def printable(text: str, limit: int = 300) -> str:
    """``text`` on one line, cut to ``limit`` characters, control characters as question marks."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:limit])
