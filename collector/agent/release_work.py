"""Releases run beside the loop: a reload takes as long as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from analyzers.contracts.evidence import Evidence
from collector.agent.releasing import Releaser, refusal
from collector.discovery.model import Found
from collector.sources.sockdiag import TcpSample
from collector.sources.target import Target


class ReleaseWork:
    """One release at a time for each server, and only for those whose operator asked for it."""

    def __init__(self, releaser: Releaser | None = None) -> None:
        self._releaser = releaser or Releaser()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="release")
        self._running: dict[int, tuple[Found, Future[Evidence]]] = {}
        self._tried: dict[int, frozenset[int]] = {}

    def seen(self, found: Found) -> None:
        """A server that has its model loaded: how its files look now."""
        with suppress(OSError):
            self._releaser.seen(found)

    def gone(self, pid: int) -> None:
        """The server ended."""
        self._releaser.gone(pid)
        self._tried.pop(pid, None)

    def begin(self, found: Found, target: Target, connections: Sequence[TcpSample]) -> None:
        """Release these, unless that is under way or was tried for the very same connections."""
        cookies = frozenset(tcp.cookie for tcp in connections)
        if found.pid in self._running or cookies <= self._tried.get(found.pid, frozenset()):
            return
        self._tried[found.pid] = cookies
        work = self._pool.submit(self._releaser.release, found, target, tuple(connections))
        self._running[found.pid] = (found, work)

    def done(self) -> list[tuple[Found, Evidence]]:
        """What was done since the last call, as evidence."""
        ready = [pid for pid, (_, work) in self._running.items() if work.done()]
        return [self._outcome(*self._running.pop(pid)) for pid in ready]

    def close(self) -> None:
        """Begin no more; a call under way ends with its own time-out."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _outcome(self, found: Found, work: Future[Evidence]) -> tuple[Found, Evidence]:
        try:
            return found, work.result()
        except Exception as error:  # noqa: BLE001  a release that fails must not end the agent
            return found, refusal(found, f"it could not be tried: {type(error).__name__}")
