"""Holds one server for a row of requests, and starts another when it is gone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import Any

from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.routes.rightness import Baseline, baseline
from collector.lab.verify.routes.table import Route


class StoppedError(Exception):
    """The run is being ended; what is under way is given up."""


@dataclass
class Seat:
    """One place for a server. ``stop`` set: no further one is started. ``starting`` is shared among seats: a
    free port is free only until another server takes it."""

    lab: ReferenceServer
    spec: ServerSpec
    stop: Event
    starting: Lock = field(default_factory=Lock)
    server: RunningServer | None = None
    awake: dict[str, Baseline] = field(default_factory=dict)

    def get(self) -> RunningServer:
        """The living server, or a new one. Raises UserError as ``lab.start``, StoppedError at the end."""
        if self.stop.is_set():
            raise StoppedError
        if self.server is None or self.server.finished or self.server.dumping:
            self.leave()
            with self.starting:
                self.server = self.lab.start(self.spec)
        return self.server

    def leave(self) -> None:
        """Take the server down. Safe to call again."""
        if self.server is not None:
            self.server.take_down()
            self.server = None


def baselines(lab: ReferenceServer, spec: ServerSpec, routes: tuple[Route, ...]) -> dict[str, Baseline]:
    """What a server that never sleeps answers to each route. A route that kills it awake gets no answer."""
    seat = Seat(lab, replace(spec, idle_seconds=-1), Event())
    try:
        return {route.name: baseline(seat.get(), route) for route in routes}
    finally:
        seat.leave()


def spec_with(spec: ServerSpec, **changes: Any) -> ServerSpec:
    """``spec`` poisoned, so that what was freed cannot pass for what was not, and with ``changes``."""
    return replace(spec, poisoned=True, **changes)
