"""Sources from packages that the user installed: entry points of the group ``llama_blackbox.sources``.

The object is a callable without arguments that returns a Stream (sources/stream.py), or several. Loading it
runs that package's code, in the agent's own process: install only what you trust.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap
from analyzers.logs.text import visible
from collector.sources.stream import DEFAULT_LIMIT, Batch, Stream, StreamHealth

GROUP = "llama_blackbox.sources"
TRIES = 3  # polls in a row that may fail; after them the source is left alone
_NEEDED = ("name", "poll", "health", "close", "fileno")


class Guarded:
    """A foreign source behind the contract: whatever it raises shows in its health and sinks nothing."""

    def __init__(self, point: str, inner: Stream) -> None:
        self.name = visible(f"plugin:{point}:{inner.name}")
        self._inner = inner
        self._failures = 0
        self._problem: str | None = None

    def fileno(self) -> int | None:
        try:
            number = self._inner.fileno()
        except Exception:  # noqa: BLE001 - foreign code may fail in any way
            return None
        return number if isinstance(number, int) and number >= 0 else None

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch:
        """The source's batch, if it is one; an empty one after it has failed TRIES times in a row."""
        if self._failures >= TRIES:
            return Batch()
        try:
            batch = self._inner.poll(limit)
            checked = _checked(batch)
        except Exception as error:  # noqa: BLE001 - foreign code may fail in any way
            self._failures += 1
            self._problem = visible(f"{self.name}: {type(error).__name__} while it was polled")
            return Batch()
        self._failures, self._problem = 0, None
        return checked

    def health(self) -> StreamHealth:
        if self._problem is not None:
            state = "failed" if self._failures >= TRIES else "degraded"
            return StreamHealth(state, self._problem)
        try:
            health = self._inner.health()
        except Exception as error:  # noqa: BLE001 - as above
            return StreamHealth("degraded", visible(f"{self.name}: {type(error).__name__} in its health"))
        return health if isinstance(health, StreamHealth) else StreamHealth("degraded", "its health is none")

    def close(self) -> None:
        try:
            self._inner.close()
        except Exception as error:  # noqa: BLE001 - as above
            self._problem = visible(f"{self.name}: {type(error).__name__} while it was closed")


def _checked(batch: Any) -> Batch:
    """The batch with only what the contract allows. Raises TypeError for anything else."""
    if not isinstance(batch, Batch) or not isinstance(batch.cursor, (str, type(None))):
        raise TypeError("no batch")
    if not all(isinstance(one, Evidence) for one in batch.evidence):
        raise TypeError("no evidence")
    if not all(isinstance(one, Gap) for one in batch.gaps):
        raise TypeError("no gap")
    return batch


def plugin_streams(points: Iterable[Any] | None = None) -> tuple[list[Guarded], list[str]]:
    """(sources, notes on those that were left out). ``points``: entry points, None for the installed ones."""
    found: list[Guarded] = []
    notes: list[str] = []
    for point in _installed() if points is None else points:
        name = visible(str(point.name), 60)
        try:
            made = point.load()()
            streams = list(made) if isinstance(made, (list, tuple)) else [made]
            lacking = [need for need in _NEEDED if not all(hasattr(one, need) for one in streams)]
        except Exception as error:  # noqa: BLE001 - foreign code may fail in any way, and sinks nothing here
            notes.append(f"source plug-in '{name}' was left out: {type(error).__name__}")
            continue
        if lacking:
            notes.append(f"source plug-in '{name}' was left out: it lacks {', '.join(lacking)}")
            continue
        found += [Guarded(name, stream) for stream in streams]
    return found, notes


def _installed() -> list[Any]:
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))


Factory = Callable[[], "Stream | list[Stream]"]
