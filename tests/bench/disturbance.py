"""Whether probes move the moment of sleep, wake a server or slow its answers: figures with their intervals.

``python -m tests.bench.disturbance [--cycles N] [--requests N] [--builds a,b]``. Probed and silent rounds
take turns in random order on one server, so that a mood of the machine meets both. Probes come ten times a
second for the sleep, a hundred times the agent's default rate. GET /metrics stands beside them as the
positive control: an instrument that could not see its effect would prove nothing.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass

from collector.lab.native.build import find_build
from collector.lab.native.recipe import Recipe
from collector.lab.reference import ReferenceServer, RunningServer, ServerSpec, cached_model
from collector.lab.reference.client import Request
from collector.lab.reference.conditions import ENTERING, EXITING
from collector.lab.reference.environments import prepare
from tests.bench.table import Row, Section

IDLE = 1  # seconds; the shortest limit gives the most cycles a minute
OFTEN = 0.1  # seconds between two rounds of probes while the sleep is timed
SECONDLY = 1.0  # and while answers are timed: ten times the agent's default
RESAMPLES = 4000
LEVEL = 0.95
WARM_UP = 5
NEAR = 0.02  # how far from 1 the ratio of latencies may lie
BLOCK = 40  # answers in a row under one setting: half a second
TOKENS = 200
SLEEP_DEADLINE = 6.0
HOSTED = ("2026.9.11063", "2026.10.11549")
NATIVE = (11138, 11368)
WORK = Request("POST", "/completion", {"prompt": "a b c d", "n_predict": 1, "cache_prompt": False})
LONG = Request("POST", "/completion", {**WORK.body, "n_predict": TOKENS, "ignore_eos": True})


@dataclass(frozen=True)
class Interval:
    """An estimate and its bootstrap interval at LEVEL."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Shift:
    """How much later, in seconds, the server slept when probed; ``routes`` what was asked."""

    build: str
    routes: str
    cycles: int
    difference: Interval
    wakes: int
    probes: int


@dataclass(frozen=True)
class Slowing:
    """Median latency of probed answers over that of undisturbed ones."""

    build: str
    requests: int
    ratio: Interval
    median_ms: float


def bootstrap(
    mine: Sequence[float], theirs: Sequence[float], figure: Callable[[float, float], float], seed: int = 1
) -> Interval:
    """``figure`` of the two medians, resampled."""
    dice = random.Random(seed)
    found = sorted(
        figure(
            statistics.median(dice.choices(mine, k=len(mine))),
            statistics.median(dice.choices(theirs, k=len(theirs))),
        )
        for _ in range(RESAMPLES)
    )
    edge = int(RESAMPLES * (1 - LEVEL) / 2)
    value = figure(statistics.median(mine), statistics.median(theirs))
    return Interval(value, found[edge], found[-1 - edge])


class Prober:
    """The asking process. ``every`` seconds between rounds, 0 for silence."""

    def __init__(self, port: int, routes: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.prober", str(port), routes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.asked = 0
        self.every(0)

    def every(self, seconds: float) -> None:
        """Returns when the setting holds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(seconds, file=self._process.stdin, flush=True)
        self.asked = int(self._process.stdout.readline().split()[1])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


@contextmanager
def probed(port: int, routes: str) -> Iterator[Prober]:
    prober = Prober(port, routes)
    try:
        yield prober
    finally:
        prober.close()


def slept_after(server: RunningServer) -> float:
    """Seconds from the end of an answer to the line of the sleep that follows it."""
    before = server.transitions(ENTERING)
    answer = server.send(WORK)
    assert answer.status == 200, answer
    told = server.wait_until(lambda it: it.transitions(ENTERING) > before, SLEEP_DEADLINE)
    assert told, "the server did not sleep"
    line = [each for each in server.output.lines() if ENTERING in each.text and "server is" not in each.text][
        -1
    ]
    return line.mono - answer.ended


def shift(server: RunningServer, build: str, routes: str, cycles: int, seed: int) -> Shift:
    """``cycles`` sleeps with probes and as many without, in random order."""
    order = [True, False] * cycles
    random.Random(seed).shuffle(order)
    times: dict[bool, list[float]] = {True: [], False: []}
    with probed(server.port, routes) as prober:
        for _ in range(2):
            slept_after(server)
        wakes, asked = server.transitions(EXITING), prober.asked
        for on in order:
            prober.every(OFTEN if on else 0)
            times[on].append(slept_after(server))
        # asleep now: probes go on for two seconds, and may wake nothing
        prober.every(OFTEN)
        time.sleep(2)
        prober.every(0)
        wakes = server.transitions(EXITING) - wakes - len(order)
        asked = prober.asked - asked
    difference = bootstrap(times[True], times[False], lambda probed, silent: probed - silent)
    return Shift(build, routes, cycles, difference, wakes, asked)


def slowing(server: RunningServer, build: str, requests: int, seed: int) -> Slowing:
    """Blocks of answers with and without probes."""
    order = [True, False] * max(1, requests // BLOCK)
    random.Random(seed).shuffle(order)
    times: dict[bool, list[float]] = {True: [], False: []}
    with probed(server.port, "health,props") as prober:
        for _ in range(WARM_UP):
            server.send(LONG)
        for on in order:
            prober.every(SECONDLY if on else 0)
            for _ in range(BLOCK):
                answer = server.send(LONG)
                assert answer.status == 200, answer
                times[on].append(answer.seconds)
    ratio = bootstrap(times[True], times[False], lambda probed, silent: probed / silent)
    return Slowing(build, len(times[True]), ratio, statistics.median(times[False]) * 1000)


def specs() -> dict[str, ServerSpec]:
    """The builds at hand: hosted ones, and native ones that are built already."""
    model = cached_model()
    found = {
        f"b{version.rpartition('.')[2]} hosted": ServerSpec(model, python=prepare(version), idle_seconds=IDLE)
        for version in HOSTED
    }
    for number in NATIVE:
        build = find_build(Recipe(number))
        if build is not None:
            found[f"b{number} native"] = ServerSpec(
                model, binary=build.binary, idle_seconds=IDLE, environment=build.environment
            )
    return found


def rows(cycles: int, requests: int, only: Sequence[str] = ()) -> Iterator[Shift | Slowing]:
    """Everything, build by build, as it is measured."""
    with ReferenceServer() as lab:
        for number, (build, spec) in enumerate(specs().items()):
            if only and not any(name in build for name in only):
                continue
            with lab.start(spec) as server:
                yield shift(server, build, "health,props", cycles, number)
                yield shift(server, build, "metrics", max(4, cycles // 3), number)
                yield slowing(server, build, requests, number)


def measure(cycles: int = 30, requests: int = 600) -> list[Section]:
    """The rows for the page of figures."""
    made = tuple(_figure(row) for row in rows(cycles, requests))
    said = "GET /metrics is the control: an instrument that cannot see its effect would prove nothing."
    return [Section("What probes disturb", made, said)]


def _figure(row: Shift | Slowing) -> Row:
    if isinstance(row, Slowing):
        inside = row.ratio.low >= 1 - NEAR and row.ratio.high <= 1 + NEAR
        what, figure = f"{row.build}: latency with /health, /props", words(row).partition("latency ")[2]
        return Row(what, figure, "probes once a second", f"1 ± {NEAR} at 95 %", inside)
    what, figure = f"{row.build}: moment of sleep with /{row.routes}", words(row).partition("moved by ")[2]
    if row.routes == "metrics":
        return Row(what, figure.strip(), "probes ten times a second; the control")
    nothing = row.difference.low <= 0 <= row.difference.high and row.wakes == 0
    return Row(what, figure.strip(), "probes ten times a second", "no shift at 95 %, no wake", nothing)


def words(row: Shift | Slowing) -> str:
    """One line for a person."""
    if isinstance(row, Shift):
        moved, low, high = (1000 * each for each in astuple(row.difference))
        return (
            f"{row.build:16} {row.routes:12} sleep moved by {moved:+8.2f} ms ({low:+.2f} … {high:+.2f}),"
            f" {row.cycles} + {row.cycles} sleeps, {row.probes} probes, woken {row.wakes} times"
        )
    ratio, low, high = astuple(row.ratio)
    return (
        f"{row.build:16} health,props latency x {ratio:.4f} ({low:.4f} … {high:.4f}),"
        f" {row.requests} + {row.requests} answers of {row.median_ms:.1f} ms"
    )


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=30)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--builds", default="")
    told = parser.parse_args()
    for row in rows(told.cycles, told.requests, [name for name in told.builds.split(",") if name]):
        print(words(row), flush=True)


if __name__ == "__main__":
    main()
