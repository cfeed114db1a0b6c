"""Follows one log file through rotation: renamed and made anew, copied and cut, gone and back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.report import Gap
from analyzers.privacy.visible import visible
from collector.sources.follow.formats import Format, Plain, Printed
from collector.sources.follow.lines import Lines
from collector.sources.follow.opening import Place, RefusedError
from collector.sources.follow.position import decoded, encoded, number
from collector.sources.follow.seen import Seen
from collector.sources.follow.tail import Tail
from collector.sources.stream import DEFAULT_LIMIT, Batch, StreamHealth

LEAVE_OLD = 60.0  # seconds without a new line after which a renamed file is left: its writer has reopened
NEIGHBOURS = 1000  # files of the folder that are looked at for the one that was read last
OLD_KEPT = 4  # renamed files that are followed at the same time
_NAME = 120


class FileStream:
    """The contract of sources/stream.py over one log file of the server ``who``.

    Without a cursor it begins at the file's end (``whole``: at its beginning). ``format`` is Wrapped() for a
    container's file.
    """

    def __init__(
        self,
        place: Place,
        who: Incarnation,
        *,
        cursor: str | None = None,
        whole: bool = False,
        format: Callable[[], Format] = Plain,
        lines: Lines | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"file:{place.name}:{who.pid}"
        self._place, self._who, self._now = place, who, now
        self._resume: Mapping[str, Any] = decoded(cursor)
        self._whole, self._make_format = whole, format
        self._lines = lines or Lines()
        self._tails: list[tuple[Tail, Format]] = []  # the newest last; others were renamed
        self._seen = Seen(who.pid, None, who)
        self._source = visible(place.path.name if place.path is not None else place.name)[:_NAME]
        self._problem: str | None = None
        self._read = self._told = self._lost = 0

    def fileno(self) -> int | None:
        """None: regular files are polled."""
        return None

    def seen(self) -> Seen:
        """Counters of the server's lines."""
        return self._seen

    def close(self) -> None:
        for tail, _ in self._tails:
            os.close(tail.descriptor)
        self._tails.clear()

    def health(self) -> StreamHealth:
        state = "ok" if self._problem is None else "waiting" if not self._tails else "degraded"
        return StreamHealth(state, self._problem, self._read, self._told, self._lost)

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch:
        """New lines. Never raises for what the file does."""
        evidence: list[Evidence] = []
        gaps: list[Gap] = []
        more = False
        try:
            self._find(gaps)
            for tail, format_ in self._tails:
                more = self._tail(tail, format_, limit, evidence, gaps) or more
            self._leave_old()
        except RefusedError as problem:
            self._problem = f"{self._source}: not read: {problem}"
        except FileNotFoundError:
            self._problem = f"{self._source}: no such file yet"
        except OSError as problem:
            self._problem = f"{self._source}: {(problem.strerror or 'error').lower()}"
        self._told += len(evidence)
        return Batch(tuple(evidence), self._cursor(), tuple(gaps), more)

    def _find(self, gaps: list[Gap]) -> None:
        """Look what stands under the name now; another file is read from its beginning."""
        if self._tails and self._place.same(self._tails[-1][0].identity()):
            self._problem = None
            return
        descriptor = self._place.open()
        state = os.fstat(descriptor)
        if any(tail.identity() == (state.st_dev, state.st_ino) for tail, _ in self._tails):
            os.close(descriptor)
            self._problem = None
            return
        tail = Tail(descriptor, quiet_since=self._now())
        if not self._tails:
            self._begin(tail, state, gaps)
        self._tails.append((tail, self._make_format()))
        self._problem = None

    def _begin(self, tail: Tail, state: os.stat_result, gaps: list[Gap]) -> None:
        """The first file of this run: from the cursor, else from its end."""
        resume, self._resume = self._resume, {}
        inode, offset = number(resume, "inode"), number(resume, "offset")
        if inode is None or offset is None:
            tail.begin_at(0 if self._whole else state.st_size, skipping=False)
            return
        if inode == state.st_ino and number(resume, "device") == state.st_dev:
            self._resumed(tail, resume, offset, gaps)
            return
        rotated = self._neighbour(inode)
        if rotated is None:
            why = f"{self._source} was rotated away since the last run; what was left of the old file is gone"
            gaps.append(Gap(what="lines of a rotated log", why=why))
            return
        old = Tail(rotated, quiet_since=self._now())
        self._resumed(old, resume, offset, gaps)
        self._tails.append((old, self._make_format()))

    def _resumed(self, tail: Tail, resume: Mapping[str, Any], offset: int, gaps: list[Gap]) -> None:
        tail.offset, tail.head, tail.head_size = offset, number(resume, "head") or 0, 0
        tail.head_size = min(number(resume, "head_size") or 0, 64)
        if tail.truncated():
            self._cut(tail, gaps)
            return
        tail.begin_at(offset, bool(resume.get("skip")))

    def _neighbour(self, inode: int) -> int | None:
        """The renamed file, by its number, in the same folder."""
        folder = self._place.folder()
        if folder is None:
            return None
        with suppress(OSError), os.scandir(folder) as entries:
            for _, entry in zip(range(NEIGHBOURS), entries, strict=False):
                if entry.inode() == inode and entry.is_file(follow_symlinks=False):
                    with suppress(OSError, RefusedError):
                        return Place(Path(entry.path)).open()
        return None

    def _cut(self, tail: Tail, gaps: list[Gap]) -> None:
        tail.begin_at(0)
        self._lost += 1
        why = f"{self._source} was cut or written anew; lines written just before that may be unread"
        gaps.append(Gap(what="lines of a truncated log", why=why))

    def _tail(
        self, tail: Tail, format_: Format, limit: int, evidence: list[Evidence], gaps: list[Gap]
    ) -> bool:
        if len(evidence) >= limit:
            return True
        if tail.truncated():
            format_.forget()
            self._cut(tail, gaps)
        found, more = tail.lines(self._now())
        device, inode = tail.identity()
        for line in found:
            printed = format_.take(line)
            self._read += 1
            if printed is not None:
                self._take(printed, f"f{device:x}-{inode:x}-{printed.at}-{crc32(printed.data):x}", evidence)
        return more

    def _take(self, printed: Printed, id_: str, evidence: list[Evidence]) -> None:
        now = time.time()
        self._seen.lines += 1
        self._seen.wall_us = int((printed.wall or now) * 1e6)
        self._seen.mono_us = int(time.monotonic() * 1e6)
        carried = Incarnation(boot_id=self._who.boot_id)
        made = self._lines.evidence(printed.data, id_, self._source, printed.wall, None, self._who, carried)
        if made is not None:
            self._seen.told += 1
            evidence.append(made)

    def _leave_old(self) -> None:
        """Renamed files whose writer is gone or writes elsewhere are let go."""
        now, last = self._now(), len(self._tails) - 1
        kept = []
        for place, (tail, format_) in enumerate(self._tails):
            silent = now - tail.quiet_since > LEAVE_OLD
            if place < last and (silent or place < last - OLD_KEPT):
                os.close(tail.descriptor)
            else:
                kept.append((tail, format_))
        self._tails = kept

    def _cursor(self) -> str | None:
        """Of the oldest file that is still followed: what comes after it is then read from its beginning."""
        if not self._tails:
            return encoded(self._resume) if self._resume else None
        tail, format_ = self._tails[0]
        device, inode = tail.identity()
        unfinished = format_.unfinished
        fields = {
            "device": device,
            "inode": inode,
            "offset": tail.resume_at if unfinished is None else min(unfinished, tail.resume_at),
            "skip": tail.skipping and unfinished is None,
            "head": tail.head,
            "head_size": tail.head_size,
        }
        return encoded(fields)
