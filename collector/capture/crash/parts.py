"""One part after the other, each within its time: what fails is a gap with a reason."""

import _signal  # type: ignore[import-not-found]  # the module signal imports enum: 3 ms
from time import monotonic

from collector.capture.crash import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")
    D = TypeVar("D")


class OutOfTimeError(Exception):
    """The part's time is up."""


class Parts:
    """``gaps``: (part, why) of what could not be had; ``seconds``: what each part took."""

    def __init__(self) -> None:
        self.gaps: list[tuple[str, str]] = []
        self.seconds: dict[str, float] = {}
        self.began = monotonic()
        self.until = self.began + limits.GATHER_SECONDS
        self._armed = False
        _signal.signal(_signal.SIGALRM, self._alarm)

    def last(self) -> None:
        """What follows may use up the whole time that the process is held."""
        self.until = self.began + limits.HOLD_SECONDS

    def _alarm(self, *_: object) -> None:
        if self._armed:
            self._armed = False
            raise OutOfTimeError

    def take(
        self, name: str, get: "Callable[[], T]", default: "D", seconds: float = limits.PART_SECONDS
    ) -> "T | D":
        """What ``get`` gives, or ``default``. Interrupts a call that blocks; one that cannot be interrupted
        is ended with this whole process by the one that watches it."""
        began = monotonic()
        left = min(seconds, self.until - began)
        if left <= 0:
            self.gaps.append((name, "no time was left"))
            return default
        found: T | D
        try:
            self._armed = True
            _signal.setitimer(_signal.ITIMER_REAL, left)
            found = get()
            self._armed = False
        except OutOfTimeError:
            self.gaps.append((name, f"not there after {left:.1f} s"))
            found = default
        except Exception as problem:  # noqa: BLE001  nothing a process shows may cost the other parts
            self._armed = False
            self.gaps.append((name, f"{type(problem).__name__}: {problem}"[:200]))
            found = default
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        self.seconds[name] = round(monotonic() - began, 6)
        return found
