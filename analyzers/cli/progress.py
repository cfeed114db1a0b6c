"""How far the reading of inputs is, on standard error, when it takes long enough for somebody to wonder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzers.cli.output import silence
from analyzers.privacy.visible import visible

if TYPE_CHECKING:
    from analyzers.triage.inputs import Source

PATIENCE = 1.0  # seconds without a word; most verdicts are out by then
APART = 5.0  # seconds between two lines where none can be written over: a file, a pipe
SLOW_TEXT = 100_000_000  # bytes of one text that take about a second or more to read
LONGEST_NAME = 40  # characters of an input's name


@dataclass
class Progress:
    """Called with how many of ``inputs`` are read; ``done`` takes the line off the terminal again.

    Nothing is printed by another thread: stack tools are started in between, and a fork wants one only.
    """

    started: float = field(default_factory=time.monotonic)
    said: float | None = None
    width: int = 0

    def __call__(self, read: int, inputs: Sequence[Source]) -> None:
        if read == len(inputs):
            return
        now = time.monotonic()
        if now - self.started >= PATIENCE or _slow(inputs[read]):
            self._say(sentence(read, inputs), now)

    def done(self) -> None:
        if self.width:
            _write("\r" + " " * self.width + "\r")
            self.width = 0

    def _say(self, text: str, now: float) -> None:
        if _rewritable():
            text = text[: _columns() - 1]  # a line that wraps is not rewritten whole
            _write("\r" + text.ljust(self.width))
            self.width = max(self.width, len(text))
        elif self.said is None or now - self.said >= APART:
            _write(text + "\n")
            self.said = now


def sentence(read: int, inputs: Sequence[Source]) -> str:
    """`3 of 8 cores read`; for a single input, or a slow one, which one is being read."""
    kinds = {source.look.kind if source.look is not None else "" for source in inputs}
    noun = "cores" if kinds == {"core"} else "inputs"
    name = visible(inputs[read].name)[:LONGEST_NAME]
    slow = f", reading {name}" if _slow(inputs[read]) else ""
    return f"{read} of {len(inputs)} {noun} read{slow}" if len(inputs) > 1 else f"reading {name}"


def _slow(source: Source) -> bool:
    text = (
        source.look is None or source.look.kind != "core"
    )  # of a core only a part is read, whatever its size
    return text and (source.size or 0) >= SLOW_TEXT


def _rewritable() -> bool:
    return sys.stderr.isatty()


def _columns() -> int:
    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, 2)
    except (OSError, ValueError):
        return 80


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:  # nobody can be told
        silence(2)
