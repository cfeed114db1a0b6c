"""Signals of the agent as flags that its loop looks at."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager


class Told:
    """What signals asked for. ``fileno`` becomes readable with each."""

    def __init__(self) -> None:
        self.stop = self.reload = False
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def fileno(self) -> int:
        return self._read.fileno()

    def take(self) -> None:
        """Empty the descriptor."""
        try:
            while self._read.recv(64):
                continue
        except BlockingIOError:
            return

    def signalled(self, number: int, _: object) -> None:
        """SIGHUP reads the settings again; anything else ends."""
        if number == signal.SIGHUP:
            self.reload = True
        else:
            self.stop = True
        try:
            self._write.send(b"x")
        except OSError:
            return

    def close(self) -> None:
        self._read.close()
        self._write.close()


@contextmanager
def stopping() -> Iterator[Told]:
    """Signals become flags for as long as this lasts."""
    told = Told()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, told.signalled) for number in numbers}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        told.close()
