"""A gathering that is told to stop leaves nothing half written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGHUP)  # a manager's stop, and a connection that was lost


@contextmanager
def tidied() -> Iterator[None]:
    """SIGTERM and SIGHUP end the work as Ctrl-C does, by KeyboardInterrupt: what is half written goes.

    A signal that is ignored (nohup) stays so; outside of the main thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPS}
    try:
        for number, handler in before.items():
            if handler == signal.SIG_DFL:
                signal.signal(number, _interrupt)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
