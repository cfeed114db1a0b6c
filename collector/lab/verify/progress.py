"""Says what is being done: each finished step as a line, and that work goes on while nothing ends."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import TracebackType

from rich.console import Console
from rich.status import Status
from rich.text import Text

from analyzers.cli.output import silence
from collector.lab.reference.output import printable

# A trial is said when it ends; most take 3-6 s, one under a debugger up to 20. On a terminal something
# moves all the time, elsewhere a line after so many quiet seconds tells that nothing hangs.
QUIET_SECONDS = 10.0
LINE_LENGTH = 400
_LOST: set[int] = set()  # descriptors of this process that were given up


class Voice(Console):
    """A console whose reader may go away, or whose disk may fill up: the work is worth more than lines."""

    def on_broken_pipe(self) -> None:
        """Rich would end the process with status 1, which is an answer here."""
        self.give_up()

    def give_up(self) -> None:
        """Print no more, and send what is still held back nowhere: it would fail again at the exit."""
        self.quiet = True
        with suppress(OSError, ValueError):
            _LOST.add(self.file.fileno())
            silence(self.file.fileno())

    @property
    def lost(self) -> bool:
        """Lines were lost, here or in an earlier voice on the same descriptor, which now leads nowhere."""
        with suppress(OSError, ValueError):
            return self.quiet or self.file.fileno() in _LOST
        return self.quiet

    def tell(self, line: str, style: str = "") -> None:
        """Print ``line`` as it stands, control characters as question marks, unwrapped."""
        try:
            self.print(Text(printable(line, LINE_LENGTH), style=style), soft_wrap=True)
        except OSError:
            self.give_up()


class Progress:
    """Lines with the seconds since the start; while the context lasts, a sign of life as well."""

    def __init__(self, voice: Voice, started: float) -> None:
        self._voice = voice
        self._started = started
        self._said = time.monotonic()
        self._over = threading.Event()
        self._status = Status("starting", console=voice) if voice.is_terminal else None
        self._thread = threading.Thread(target=self._beat, name="verify-progress", daemon=True)

    def say(self, line: str) -> None:
        self._said = time.monotonic()
        self._voice.tell(f"  {time.time() - self._started:6.1f} s  {line}")

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._status is not None:
            self._status.stop()

    def _beat(self) -> None:
        while not self._over.wait(1.0):
            elapsed = time.time() - self._started
            if self._status is not None:
                self._status.update(f"at work for {elapsed:.0f} s; Ctrl-C ends it and keeps what is finished")
            elif time.monotonic() - self._said >= QUIET_SECONDS:
                self.say("still at work")
