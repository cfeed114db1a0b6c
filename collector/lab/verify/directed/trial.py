"""One trial: a try that meets its window, or the record of those that did not."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.contracts.trials import INCONCLUSIVE, Trial
from collector.lab.reference.client import Request
from collector.lab.verify.directed.attempt import attempt
from collector.lab.verify.directed.ending import Seen
from collector.lab.verify.directed.places import Places
from collector.lab.verify.directed.points import Point
from collector.lab.verify.directed.requests import request_for, two_words
from collector.lab.verify.judge import oom_kills, settled
from collector.lab.verify.session import Bench

# Fresh servers for one trial. Held points were met at the first in 80 of 80. A reload that puts the model
# where it was before the sleep says nothing; with the allocator of ServerSpec.poisoned none of 36 did.
TRIES = 3


@dataclass(frozen=True)
class Setting:
    """What all trials of a run share."""

    bench: Bench
    places: Places
    gdb: str


def carry_out(setting: Setting, point: Point, number: int) -> Trial:
    """One trial at ``point``. A try that misses its window is made again, up to TRIES times.

    Raises UserError when servers cannot be started under gdb.
    """
    bench = setting.bench
    began, oom = time.monotonic(), oom_kills()
    request = request_for(point, two_words(bench.chance))
    missed: list[str] = []
    for _ in range(TRIES):
        seen = attempt(bench.spec, bench.lab.folder, setting.gdb, setting.places, point, request)
        if seen.reached:
            break
        missed.append("; ".join(seen.notes) or seen.outcome)
    if seen.oracle is not None:
        bench.say(f"trial {number}: {seen.oracle.short}")
    return settled(record(point, request, seen, number, missed, time.monotonic() - began), oom)


def record(
    point: Point, request: Request, seen: Seen, number: int, missed: Sequence[str], seconds: float
) -> Trial:
    tries = [f"try {at} missed its window: {why}" for at, why in enumerate(missed, 1)] if missed else []
    return Trial(
        number=number,
        defect=point.defect,
        route=f"{request.method} {request.route}",
        point=point.name,
        outcome=seen.outcome if seen.reached else INCONCLUSIVE,
        reached=seen.reached,
        status=seen.status,
        seconds=seen.seconds,
        trial_seconds=round(seconds, 3),
        signal=seen.signal,
        judgement=seen.judgement,
        signature=seen.signature,
        oracle=seen.oracle.lines if seen.oracle else [],
        notes=[*(seen.notes if seen.reached else []), *tries],
    )


def shuffled(points: Sequence[Point], chance: random.Random) -> list[Point]:
    """The points in an order of chance, so that no point always comes first."""
    return chance.sample(list(points), len(points))
