"""New cores: captures in the store, and plain core files in folders that a core_pattern names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, to_evidence
from analyzers.errors import UserError
from analyzers.logs.text import visible
from collector.capture.kept.captures import Capture, captures
from collector.sources.follow.position import decoded, encoded
from collector.sources.stream import DEFAULT_LIMIT, Batch, StreamHealth

if TYPE_CHECKING:
    from collector.capture.intake.watch import Watch

EVERY = 1.0  # seconds between looks at the store's time stamp; a look costs one stat
FULL = 60.0  # seconds after which it is listed even so: stamps of some file systems are coarse
KEPT = 1000  # ids that the cursor names; the store keeps fewer


class CoreStream:
    """The contract of sources/stream.py over a capture store and folders of core files.

    Without a cursor what is there already is old. Evidence is a CoreFact whose data name the ``capture`` or
    the ``core``'s path besides.
    """

    name = "cores"

    def __init__(
        self,
        store: Path | None,
        folders: Sequence[Path] = (),
        *,
        cursor: str | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._now = store, now
        self._watch = _watching(folders) if folders else None
        stored = decoded(cursor)
        names = stored.get("known")
        self._known = (
            {name for name in names[:KEPT] if isinstance(name, str)} if isinstance(names, list) else None
        )
        self._stamp: int | None = None
        self._looked = self._listed = float("-inf")
        self._problem: str | None = None
        self._read = self._told = 0

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        """Nothing is held open."""

    def health(self) -> StreamHealth:
        return StreamHealth(
            "ok" if self._problem is None else "degraded", self._problem, self._read, self._told
        )

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch:
        """Captures and cores that are new."""
        now = self._now()
        if now - self._looked < EVERY:
            return Batch()
        self._looked = now
        self._problem = None
        known = set() if self._known is None else self._known
        first = self._known is None
        fresh = list(self._new(now, known))
        if len(fresh) > limit:  # the rest is found again at the next look
            fresh, self._stamp = fresh[:limit], None
        known |= {id_ for id_, _ in fresh}
        self._known = known
        evidence = [] if first else [found for _, found in fresh]
        self._told += len(evidence)
        return Batch(tuple(evidence), encoded({"known": sorted(known)[-KEPT:]}))

    def _new(self, now: float, known: set[str]) -> Iterator[tuple[str, Evidence]]:
        for one in self._captures(now):
            self._read += 1
            if one.id not in known:
                yield one.id, _capture(one)
        yield from self._files(known)

    def _captures(self, now: float) -> list[Capture]:
        """The store's captures, when its folder has changed."""
        if self._store is None:
            return []
        try:
            stamp = os.stat(self._store).st_mtime_ns
        except FileNotFoundError:
            return []
        except OSError as problem:
            self._problem = f"{self._store}: {(problem.strerror or 'error').lower()}"
            return []
        if stamp == self._stamp and now - self._listed < FULL:
            return []
        self._listed = now
        try:
            found = captures(self._store)
        except (UserError, OSError) as problem:
            self._problem = visible(f"{self._store}: {problem}")
            return []
        self._stamp = stamp
        return found

    def _files(self, known: set[str]) -> Iterator[tuple[str, Evidence]]:
        if self._watch is None:
            return
        with suppress(OSError):
            try:
                for found in self._watch.ready():
                    if found.path is not None:
                        state = found.path.stat()
                        id_ = f"{state.st_dev:x}-{state.st_ino:x}-{state.st_mtime_ns}"
                        if id_ not in known:
                            yield id_, _file(found.path, id_, found.wall)
            except UserError as problem:
                self._problem = visible(f"{problem.where}: {problem.what}")
        if self._watch.refused:
            self._problem = visible(self._watch.refused[-1])
            self._watch.refused.clear()


def _watching(folders: Sequence[Path]) -> Watch:
    """Imported when it is used: few hosts keep core files in folders."""
    from collector.capture.intake.watch import Watch

    return Watch(folders)


def _capture(one: Capture) -> Evidence:
    fact = CoreFact(signal=one.signal, pid=one.pid, exe=visible(one.exe) or None)
    made = to_evidence(
        fact,
        id=f"capture-{one.id}",
        source="capture store",
        text=f"capture {visible(one.id)}: pid {one.pid}, signal {one.signal}",
        trust=Trust.KERNEL,
        wall=one.wall,
        incarnation=Incarnation(pid=one.pid, start_time=one.start_seconds, boot_id=one.boot_id),
    )
    return made.model_copy(update={"data": {**made.data, "capture": one.id}})


def _file(path: Path, id_: str, wall: float) -> Evidence:
    from analyzers.core.notes import read_core

    pid = signal = program = None
    with suppress(OSError, UserError):
        core = read_core(path)
        pid, signal, program = core.pid, core.signal, core.program
    made = to_evidence(
        CoreFact(signal=signal, pid=pid, program=program and visible(program)),
        id=f"core-{id_}",
        source="core file",
        text=f"core file {visible(path.name)}: pid {pid}, signal {signal}",
        trust=Trust.KERNEL,
        wall=wall,
        incarnation=Incarnation(pid=pid),
    )
    return made.model_copy(update={"data": {**made.data, "core": str(path)}})
