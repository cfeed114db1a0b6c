"""Whether anything in a server runs or wants to: what tells one that waits from one that is slow."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# Looks in a row, one each 20 ms, at which no thread ran or wanted to. A thread that was woken and waits
# for a processor shows as running, however busy the machine is.
STILL_LOOKS = 40
SLEEPING, TRACED = "S", "t"


class Stillness:
    """Counts looks at which all of the server's threads slept. ``held``: threads that gdb holds are still
    too; without it a traced thread is one that was stopped on the way."""

    def __init__(self, pid: int, *, held: bool = False) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._still = {SLEEPING, TRACED} if held else {SLEEPING}
        self.looks = 0

    def look(self) -> bool:
        """One look; True when there were enough still ones in a row."""
        states = thread_states(self._tasks)
        self.looks = self.looks + 1 if _all_in(states, self._still) else 0
        return self.looks >= STILL_LOOKS


def _all_in(states: Iterable[str], still: set[str]) -> bool:
    found = set(states)
    return SLEEPING in found and found <= still


def thread_states(tasks: Path) -> list[str]:
    """The state letter of each thread, by /proc/PID/task/*/stat; see proc(5)."""
    found = []
    with suppress(OSError):
        for entry in tasks.iterdir():
            with suppress(OSError, IndexError):
                found.append((entry / "stat").read_text().rpartition(")")[2].split()[0])
    return found
