"""Asks a running server that we did not start, in the state it is found in, changing as little as it can."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analyzers.catalogue.builds import build_number_of
from analyzers.contracts.routes import ASLEEP, AWAKE, BROKEN, KEPT, RouteBuild, RouteTrial
from analyzers.contracts.trials import ANSWERED, INCONCLUSIVE, REFUSED, Subject
from analyzers.errors import UserError
from collector.lab.reference.client import ANSWER_LIMIT, Answer, Request
from collector.lab.reference.output import printable
from collector.lab.verify.consent import Target
from collector.lab.verify.routes.collect import row_of
from collector.lab.verify.routes.promises import judged, promise_of, promised
from collector.lab.verify.routes.table import Route, is_absent

TIMEOUT = 30.0  # a real model loads for seconds; what takes longer is not waited for
NAME_LENGTH = 80
Ask = Callable[[Request], Answer]


@dataclass(frozen=True)
class Found:
    """The server as its /props describe it."""

    build: int | None
    name: str
    sleeping: bool


def asker(target: Target, api_key: str | None = None) -> Ask:
    """A client for ``target``; every failure is an Answer without status."""
    kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection

    def ask(request: Request) -> Answer:
        headers = {"Content-Type": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        connection = kind(target.host, target.port, timeout=request.timeout)
        sent = time.monotonic()
        status, body, error = None, b"", None
        try:
            connection.request(request.method, target.prefix + request.route, request.payload(), headers)
            response = connection.getresponse()
            body, status = response.read(ANSWER_LIMIT), response.status
        except (OSError, http.client.HTTPException) as problem:
            error = type(problem).__name__
        finally:
            connection.close()
        return Answer(request.route, status, body, error, sent, time.monotonic())

    return ask


def find(target: Target, ask: Ask) -> Found:
    """Raises UserError when nobody answers there, or not like a llama-server."""
    answer = ask(Request("GET", "/props", timeout=TIMEOUT))
    body = answer.json()
    if answer.status is None:
        raise _unusable(target, f"no answer ({answer.error})", "check that it runs there")
    if answer.status == 401:
        raise _unusable(target, "it wants an API key", "add --api-key-file FILE")
    if not isinstance(body, dict) or "is_sleeping" not in body:
        raise _unusable(
            target, "its /props are not those of a llama-server with a sleep mode", "check --target"
        )
    said = printable(str(body.get("build_info") or "unknown build"), NAME_LENGTH)
    return Found(build_number_of(said), said, body.get("is_sleeping") is True)


def allowed(routes: Sequence[Route], all_routes: bool) -> tuple[Route, ...]:
    """Those that never woke a server on any build measured, unless the user wants all."""
    return tuple(route for route in routes if route.harmless or all_routes)


def survey(ask: Ask, found: Found, routes: Sequence[Route]) -> Iterator[RouteTrial]:
    """Each route once, in the state it is met in. There is no second answer to compare with, and no log."""
    for number, route in enumerate(routes, 1):
        before = _sleeping(ask)
        answer = ask(route.request(TIMEOUT))
        after = _sleeping(ask)
        state = ASLEEP if before else AWAKE
        wakes = (after is False) if before and after is not None else None
        yield _trial(number, route, state, answer, wakes, found)


def _sleeping(ask: Ask) -> bool | None:
    body = ask(Request("GET", "/props", timeout=TIMEOUT)).json()
    said = body.get("is_sleeping") if isinstance(body, dict) else None
    return said if isinstance(said, bool) else None


def _trial(
    number: int, route: Route, state: str, answer: Answer, wakes: bool | None, found: Found
) -> RouteTrial:
    absent = is_absent(answer)
    outcome = INCONCLUSIVE if answer.status is None else REFUSED if absent else ANSWERED
    word = promised(route, promise_of(found.build), answer.status)
    return RouteTrial(
        number=number,
        route=route.name,
        handler=route.handler,
        state=state,
        outcome=outcome,
        reached=answer.status is not None,
        status=answer.status,
        seconds=round(answer.seconds, 4),
        wakes=wakes,
        awake_status=answer.status if state == AWAKE else None,
        promised=word,
        promise=judged(word, state, outcome, wakes, None),
        absent=absent,
        notes=[] if answer.status is not None else [f"no answer ({answer.error})"],
    )


def conclusion(trials: Sequence[RouteTrial], found: Found) -> str:
    """What the trials say of the server's promises, in one line; the exit status says the same."""
    broken = [f"{trial.route} {trial.state}" for trial in trials if trial.promise == BROKEN]
    silent = [trial.route for trial in trials if not trial.reached]
    kept = sum(trial.promise == KEPT for trial in trials)
    if broken:
        return f"a promise was broken: {', '.join(broken)}"
    if silent:
        return f"inconclusive: no answer to {', '.join(silent)}"
    if kept:
        return f"{kept} of {kept} promises that were seen were kept"
    if promise_of(found.build) is None:
        return "inconclusive: which build this is, and so what it promises, is not known"
    return "inconclusive: nothing that this build promises was seen"


def build_of(found: Found, trials: Sequence[RouteTrial], seconds: float) -> RouteBuild:
    """One build's part of the matrix. The address stays out of it: the document may be published."""
    promise = promise_of(found.build)
    name = f"b{found.build} (running server)" if found.build else "a running server"
    return RouteBuild(
        subject=Subject(kind="remote", name=name, version=found.name, build=found.build),
        note="a running server, asked as it was found",
        promise_text=promise.text if promise else None,
        promise_source=promise.source if promise else None,
        seconds=round(seconds, 1),
        rows=[row_of([trial], (trial.state or "",)) for trial in trials],
    )


def _unusable(target: Target, why: str, remedy: str) -> UserError:
    return UserError(why, where=printable(target.name), remedy=remedy)
