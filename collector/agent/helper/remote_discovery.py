"""Discovery by the helper, with what the agent itself can see in its place while the helper is gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from collector.agent.helper.link import GONE, RETRY_SECONDS, connect, take
from collector.agent.helper.protocol import SUBSCRIBE, Request, ended_of, found_of, parse_reply, request_bytes
from collector.discovery.look import mark_of
from collector.discovery.model import Changes, Ended, Found
from collector.discovery.watch import Discovery
from collector.sources.stream import StreamHealth

PACKETS_A_POLL = 2000  # some 20 ms of work
SNAPSHOT_SECONDS = 5.0  # until a helper that began its story must have told it
LOOK_SECONDS = 1.0  # between looks whether servers that only the helper could see still live
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class _Told:
    born: list[Found] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    changed: list[Found] = field(default_factory=list)
    brief: list[Ended] = field(default_factory=list)

    def changes(self) -> Changes:
        return Changes(tuple(self.born), tuple(self.ended), tuple(self.changed), tuple(self.brief))


class RemoteDiscovery(Discovery):
    """The interface of Discovery over the helper's socket. A server is told once, however often helper and
    agent lose each other; one that ended meanwhile is told as ended without a code. Never raises."""

    # Every public member of Discovery is replaced and its state is not made: only the type is shared.
    def __init__(self, path: Path, *, local: Callable[[], Discovery] = Discovery) -> None:
        self._path, self._make_local = path, local
        self._link: Any = None
        self._local: Discovery | None = None
        self._here: dict[int, Found] = {}
        self._snapshot: dict[int, Found] | None = None
        self._burning: frozenset[int] = frozenset()
        self._theirs = StreamHealth()
        self._problem: str | None = None
        self._retry_at = self._look_at = self._snapshot_by = 0.0
        self._more = self._complete = False
        self._reads = self._tells = 0
        self._yield = _Told()
        self._reconnect()
        if self._link is not None:
            self._first()

    def fileno(self) -> int | None:
        return self._link.fileno() if self._link is not None else self._fallback().fileno()

    @property
    def pending(self) -> bool:
        return self._more if self._link is not None else self._fallback().pending

    @property
    def dumping(self) -> frozenset[int]:
        """Of the helper's word; of the fallback's while it is gone."""
        seen = self._burning if self._link is not None else self._fallback().dumping
        return frozenset(pid for pid in seen if pid in self._here)

    def known(self) -> tuple[Found, ...]:
        return tuple(found for _, found in sorted(self._here.items()))

    def poll(self) -> Changes:
        if self._link is None and time.monotonic() >= self._retry_at:
            self._reconnect()
        if self._link is not None:
            self._listen()
        if self._link is None:
            self._see()
        out, self._yield = self._yield, _Told()
        self._tells += len(out.born) + len(out.ended) + len(out.changed) + len(out.brief)
        return out.changes()

    def health(self) -> StreamHealth:
        """Degraded while the helper is gone; else as the helper says of itself."""
        if self._link is not None and self._complete:
            return replace(self._theirs, read=self._reads, told=self._tells)
        problem = f"{self._problem or GONE}: only what the agent's own user may see is seen"
        return StreamHealth("degraded", problem, self._reads, self._tells, 0)

    def close(self) -> None:
        self._disconnect()
        if self._local is not None:
            self._local.close()
            self._local = None

    # The helper

    def _reconnect(self) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        try:
            link = connect(self._path)
        except OSError as problem:
            self._problem = f"{GONE} at {self._path} ({(problem.strerror or 'no answer').lower()})"
            return
        try:
            link.send(request_bytes(Request(SUBSCRIBE)))
            link.setblocking(False)
        except OSError:
            link.close()
            return
        self._link, self._snapshot, self._burning = link, None, frozenset()
        self._snapshot_by = time.monotonic() + SNAPSHOT_SECONDS

    def _first(self) -> None:
        """At the start the first poll tells everyone: wait for the story so far, as Discovery's own does."""
        until = time.monotonic() + 1.0
        while self._link is not None and not self._complete and time.monotonic() < until:
            self._link.settimeout(0.2)
            self._packet()

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self._snapshot = None
        self._complete = False

    def _listen(self) -> None:
        self._more = True
        for _ in range(PACKETS_A_POLL):
            if self._link is None:
                return
            self._link.setblocking(False)
            if not self._packet():
                self._more = False
                break
        if not self._complete and time.monotonic() > self._snapshot_by:
            self._problem = f"{GONE} at {self._path}: it tells nothing"
            self._disconnect()

    def _packet(self) -> bool:
        """Whether there was one."""
        try:
            data, descriptors = take(self._link)
        except (BlockingIOError, InterruptedError, TimeoutError):
            return False
        except OSError:
            self._disconnect()
            return False
        for each in descriptors:
            os.close(each)
        if not data:
            self._problem = f"{GONE} at {self._path} (it went away)"
            self._disconnect()
            return False
        self._reads += 1
        self._message(parse_reply(data) or {})
        return True

    def _message(self, told: Mapping[str, Any]) -> None:
        for kind, value in told.items():
            if kind in ("born", "changed"):
                found = found_of(value)
                if found is not None and found.incarnation.pid is not None:
                    self._found(found)
            elif kind in ("ended", "brief"):
                ended = ended_of(value)
                if ended is not None and ended.found.incarnation.pid is not None:
                    self._ended(ended, brief=kind == "brief")
            elif kind == "dumping" and isinstance(value, list):
                self._burning = frozenset(each for each in value if isinstance(each, int))
            elif kind == "health" and isinstance(value, dict):
                with suppress(TypeError):
                    self._theirs = StreamHealth(**value)
            elif kind == "snapshot":
                self._snapshot = {}
            elif kind == "complete":
                self._completed()

    def _found(self, found: Found) -> None:
        if self._snapshot is not None:
            self._snapshot[found.pid] = found
        else:
            self._learn(found)

    def _learn(self, found: Found) -> None:
        before = self._here.get(found.pid)
        if before is not None and before.incarnation != found.incarnation:
            self._absent(before)
            before = None
        if before == found:
            return
        self._here[found.pid] = found
        (self._yield.born if before is None else self._yield.changed).append(found)

    def _ended(self, ended: Ended, *, brief: bool = False) -> None:
        known = self._here.get(ended.found.pid)
        if known is not None and known.incarnation == ended.found.incarnation:
            del self._here[known.pid]
            self._yield.ended.append(replace(ended, found=known))
        elif brief:
            self._yield.brief.append(ended)

    def _completed(self) -> None:
        """Whoever was known and is not in the story any more has ended while nobody told."""
        snapshot, self._snapshot = self._snapshot or {}, None
        for pid, found in list(self._here.items()):
            other = snapshot.get(pid)
            if other is None or other.incarnation != found.incarnation:
                self._absent(found)
        for found in snapshot.values():
            self._learn(found)
        self._complete = True
        self._problem = None
        if self._local is not None:
            self._local.close()
            self._local = None

    def _absent(self, found: Found) -> None:
        self._here.pop(found.pid, None)
        self._yield.ended.append(Ended(found, time.time(), time.monotonic()))

    # Without it

    def _fallback(self) -> Discovery:
        if self._local is None:
            self._local = self._make_local()
        return self._local

    def _see(self) -> None:
        changes = self._fallback().poll()
        for ended in changes.ended:
            self._ended(ended)
        for found in (*changes.born, *changes.changed):
            self._learn(found)
        for ended in changes.brief:
            self._ended(ended, brief=True)
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._verify()

    def _verify(self) -> None:
        """Any user may see whether a process lives and since when."""
        for pid, found in list(self._here.items()):
            mark, began = mark_of(pid), found.incarnation.start_time
            if mark is None or mark.dead or (began is not None and mark.start != round(began * _TICKS)):
                self._absent(found)
