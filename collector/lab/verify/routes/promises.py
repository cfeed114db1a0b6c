"""What a build's documentation promises of a route, and whether a trial shows that it was kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from analyzers.contracts.routes import BROKEN, KEPT, NO_PROMISE, SILENT, WORKS
from analyzers.contracts.trials import ANSWERED, STRANDED
from collector.lab.verify.routes.data import entries
from collector.lab.verify.routes.table import Route

# The states in which a silent call could wake the server, and a task must.
SLEEPY = ("asleep", "unloading")
FIRST_ERROR = 400


@dataclass(frozen=True)
class Promise:
    """The rule of one build: the routes that neither wake nor reset, and where that stands written."""

    first: int
    silent: tuple[str, ...]
    text: str
    source: str


@cache
def _promises() -> tuple[Promise, ...]:
    made = [
        Promise(each["from"], tuple(each["silent"]), each["text"], each["source"])
        for each in entries("promises.toml", "promise")
    ]
    return tuple(sorted(made, key=lambda promise: promise.first))


def promise_of(build: int | None) -> Promise | None:
    """The rule that holds for ``build``; None for an unknown one, and for those before the sleep mode."""
    if build is None:
        return None
    return next((each for each in reversed(_promises()) if each.first <= build), None)


def promised(route: Route, promise: Promise | None, awake_status: int | None) -> str | None:
    """``silent``: neither wakes nor resets. ``works``: a task: it wakes, is answered, counts as activity.

    Only a request that the awake server carries out is a task: one refused there promises nothing.
    """
    if promise is None:
        return None
    if route.name in promise.silent:
        return SILENT
    carried_out = awake_status is not None and awake_status < FIRST_ERROR
    return WORKS if route.task and carried_out else None


def judged(word: str | None, state: str, outcome: str, wakes: bool | None, resets: bool | None) -> str:
    """kept | broken | none, from what was seen. A crash is a finding of its own and judges no promise."""
    if word == SILENT:
        return _silent(state, wakes, resets)
    if word == WORKS:
        return _works(state, outcome, wakes, resets)
    return NO_PROMISE


def _silent(state: str, wakes: bool | None, resets: bool | None) -> str:
    seen = resets if state == "awake" else wakes if state in SLEEPY else None
    return NO_PROMISE if seen is None else BROKEN if seen else KEPT


def _works(state: str, outcome: str, wakes: bool | None, resets: bool | None) -> str:
    if outcome == STRANDED:
        return BROKEN
    if outcome != ANSWERED:
        return NO_PROMISE
    if state == "awake":
        return NO_PROMISE if resets is None else KEPT if resets else BROKEN
    if state in SLEEPY:
        return NO_PROMISE if wakes is None else KEPT if wakes else BROKEN
    return KEPT
