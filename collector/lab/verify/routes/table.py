"""The routes of llama-server as a table of data, with the smallest valid request for each.

The list is what ``tools/server/server.cpp`` of b11138 and b11368 registers, and what older builds have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from collector.lab.reference.client import REQUEST_TIMEOUT, Answer, Request
from collector.lab.verify.routes.data import entries

# The server words every 404 alike, also that of a handler which looks in vain for something: the requests of
# the table are such that no handler does.
ABSENT_STATUS = 404


@dataclass(frozen=True)
class Route:
    """One method and path. ``handler`` groups the aliases of one handler.

    ``task``: a valid request is work, documented to wake the server and to count as activity.
    ``harmless``: never wakes, on any build measured; the only ones a foreign server is asked.
    ``varies``: two right answers differ (clocks, counters): only the status is compared. ``fresh``: asked on
    a server of its own, at that server's first sleep.
    """

    method: str
    path: str
    handler: str
    body: Any = None
    task: bool = False
    harmless: bool = False
    varies: bool = False
    fresh: bool = False

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    def request(self, timeout: float = REQUEST_TIMEOUT) -> Request:
        return Request(self.method, self.path, self.body, timeout=timeout)


@cache
def all_routes() -> tuple[Route, ...]:
    """Every route of the table, in its order."""
    return tuple(route for entry in entries("routes.toml", "route") for route in _routes(entry))


def _routes(entry: dict[str, Any]) -> list[Route]:
    """An entry's ``paths`` are aliases: one handler, one body."""
    entry = dict(entry)
    paths = entry.pop("paths")
    return [Route(path=path, **entry) for path in paths]


def chosen_routes(names: tuple[str, ...]) -> tuple[Route, ...]:
    """Those of the table named by "METHOD PATH" or by path alone; all when ``names`` is empty.

    Raises KeyError with the first name that is not in the table.
    """
    if not names:
        return all_routes()
    picked = [route for route in all_routes() if route.name in names or route.path in names]
    known = {name for route in picked for name in (route.name, route.path)}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return tuple(picked)


def is_absent(answer: Answer) -> bool:
    """The build has no such route."""
    return answer.status == ABSENT_STATUS
