"""Runs the agent until it is told to stop: readiness, signs of life, reload, its own health."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from analyzers.errors import UserError
from collector.agent.config.model import Config
from collector.agent.health import problems_of
from collector.agent.loop import Agent, Parts
from collector.agent.service.journal_log import Log
from collector.agent.service.notify import Notifier
from collector.agent.wishes import Wishlist

STATUS_SECONDS = 5.0
HEALTH_SECONDS = 60.0


class Asked(Protocol):
    """What signals asked for."""

    stop: bool
    reload: bool

    def fileno(self) -> int: ...

    def take(self) -> None: ...


def serve(
    parts: Parts,
    config: Config,
    read: Callable[[], Config],
    log: Log,
    told: Asked,
    *,
    once: bool = False,
    notifier: Notifier | None = None,
) -> None:
    """Rounds until ``told.stop``. ``read`` gives the settings again; what cannot be read leaves the old ones
    in force. Never ends for what a server or a disk does."""
    manager = notifier or Notifier()
    agent = Agent(parts, tick_seconds=config.agent.tick_seconds)
    service = _Service(agent, manager, log)
    try:
        agent.round()
        # What was imported and built so far stays: the collector need not walk it at every pass.
        gc.collect()
        gc.freeze()
        manager.ready(service.status())
        log.info("ready", service.status())
        while not (told.stop or once):
            agent.wait(told.fileno())
            told.take()
            if told.reload:
                told.reload = False
                service.reload(read)
            agent.round()
            service.live()
        manager.stopping()
    finally:
        agent.close()
        log.info("stopped", "the agent has stopped")


class _Service:
    """What the manager and the log are told."""

    def __init__(self, agent: Agent, manager: Notifier, log: Log) -> None:
        self._agent, self._manager, self._log = agent, manager, log
        self._status_at = self._health_at = time.monotonic()
        self._alive_at = 0.0

    def live(self) -> None:
        """After a round: a sign of life, the status line, complaints."""
        now, limit = time.monotonic(), self._manager.watchdog_seconds
        if limit is not None and now - self._alive_at >= limit / 3:
            self._alive_at = now
            self._manager.alive()
        if now - self._status_at >= STATUS_SECONDS:
            self._status_at = now
            self._manager.status(self.status())
        if now - self._health_at >= HEALTH_SECONDS:
            self._health_at = now
            self._complain()

    def status(self) -> str:
        """One line: how many servers in which states."""
        parts = self._agent.parts
        views = (parts.watch.view(found.incarnation) for found in parts.roster.living)
        states = Counter(view.state for view in views if view is not None)
        words = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        return f"{len(parts.roster.living)} servers" + (f": {words}" if words else "")

    def reload(self, read: Callable[[], Config]) -> None:
        """Read the settings again; sources and the outbox keep theirs until the agent starts anew."""
        self._manager.reloading(time.monotonic())
        try:
            wishlist = Wishlist(read())
        except UserError as error:
            self._log.error("reload", f"{error}; the settings of before stay in force")
        else:
            for line in wishlist.problems:
                self._log.warning("left-out", line)
            self._agent.reload(wishlist)
            self._log.info("reload", "the settings were read again")
        self._manager.ready(self.status())

    def _complain(self) -> None:
        parts = self._agent.parts
        for name, problem in problems_of(parts):
            self._log.warning("health", problem, part=name)
        parts.incidents.problems.clear()
