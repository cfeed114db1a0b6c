"""The agent's own health, in the words of its parts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.agent.loop import Parts

MAX_PROBLEMS = 20


def problems_of(parts: Parts) -> Iterator[tuple[str, str]]:
    """(part, one line) of everything that is not as it should be."""
    for stream in parts.feeds.all():
        health = stream.health()
        if health.problem is not None:
            yield stream.name, health.problem
    found, outbox = parts.discovery.health(), parts.store.health()
    if found.problem is not None:
        yield "discovery", found.problem
    if outbox.problem is not None:
        yield "outbox", outbox.problem
    for problem in dict.fromkeys(parts.watch.problems.values()):
        yield "sockets", problem
    for problem in dict.fromkeys(parts.incidents.problems):
        yield "triage", problem
    if parts.delivery is not None:
        for sink in parts.delivery.health():
            if sink.problem is not None:
                yield sink.name, sink.problem


def health_of(parts: Parts) -> str:
    """As JSON, for the outbox."""
    told = [f"{name}: {problem}" for name, problem in problems_of(parts)]
    return json.dumps(
        {"pid": os.getpid(), "problems": told[:MAX_PROBLEMS], "more": max(0, len(told) - MAX_PROBLEMS)}
    )
