"""How the moment of sleep is chosen, by what the build allows, and the correction learnt on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from collector.lab.faults.pinning import Dry, Pinned, dry_nature, dry_poke, pin, pin_to_nature
from collector.lab.reference.client import Request
from collector.lab.reference.server import RunningServer
from collector.lab.verify.pinned.placement import Correction

Say = Callable[[str], None]
# GET /metrics stopped counting as work with upstream's pull request 27376.
METRICS_PIN_BUILD = 10519
# Sleeps without a request before the first trial, and how many of them must obey.
REHEARSALS, OBEYED = 3, 2
# A poked loop sleeps within a few milliseconds, also on a loaded machine; its own next look is 500 ms away.
POKED_DEADLINE = 0.1
# The loop's own look comes once a second: a sleep later than this missed one, or was not due.
NATURAL_DEADLINE = 0.5
# Learnt moments further apart than this place nothing: windows are a few tens of milliseconds wide.
LARGEST_SPREAD = 0.025
CANNOT = "this build's sleep cannot be pinned"


class Pin(Protocol):
    """One way to choose the moment. ``asked`` tells what makes the server sleep there."""

    asked: str
    correction: Correction

    def place(self, server: RunningServer, request: Request, offset: float) -> Pinned:
        """Send ``request`` so that the server falls asleep ``offset`` seconds later."""

    def learn(self, pinned: Pinned, arrival: float) -> None:
        """Take in where the sleep line of a trial arrived (CLOCK_MONOTONIC)."""

    def handled(self, pinned: Pinned) -> float | None:
        """When the loop looked at its idle limit, whether it slept or not; None when that is not known."""

    def obeys(self, server: RunningServer) -> bool:
        """This server sleeps when it is told to and nothing is in flight."""


class MetricsPin:
    """The loop is poked by GET /metrics."""

    asked = "GET /metrics past the idle limit"

    def __init__(self, delays: Sequence[float]) -> None:
        self.correction = Correction(delays)

    def place(self, server: RunningServer, request: Request, offset: float) -> Pinned:
        return pin(server, request, offset, lead=self.correction.seconds)

    def learn(self, pinned: Pinned, arrival: float) -> None:
        delay = arrival - pinned.poked
        if 0.0 < delay < POKED_DEADLINE:
            self.correction.learn(delay)

    def handled(self, pinned: Pinned) -> float | None:
        return pinned.poke.answered if pinned.poke is not None else None

    def obeys(self, server: RunningServer) -> bool:
        return obeyed_poke(dry_poke(server, POKED_DEADLINE))


class NaturalPin:
    """The request is sent so that the loop's own look at the clock falls into it."""

    asked = "the loop's own look, whole seconds after the last work"

    def __init__(self, delays: Sequence[float]) -> None:
        self.correction = Correction(delays)

    def place(self, server: RunningServer, request: Request, offset: float) -> Pinned:
        return pin_to_nature(server, request, offset, delay=self.correction.seconds)

    def learn(self, pinned: Pinned, arrival: float) -> None:
        late = arrival - pinned.wanted
        if abs(late) < LARGEST_SPREAD:
            self.correction.learn(self.correction.seconds + late)

    def handled(self, pinned: Pinned) -> float | None:
        """None: the learnt moment is no observed look; a server that does not sleep there says nothing."""
        return None

    def obeys(self, server: RunningServer) -> bool:
        delay = dry_nature(server, NATURAL_DEADLINE).delay
        return delay is not None and abs(delay - self.correction.seconds) < LARGEST_SPREAD


def obeyed_poke(dry: Dry) -> bool:
    return dry.delay is not None and 0.0 < dry.delay < POKED_DEADLINE


def may_be_poked(build: int | None) -> bool:
    """False where /metrics is known to count as work. A build that does not say its number is tried."""
    return build is None or build >= METRICS_PIN_BUILD


def choose_pin(server: RunningServer, build: int | None, say: Say) -> Pin | None:
    """The way that this server was seen to obey; None when there is none."""
    if may_be_poked(build):
        poked = [dry_poke(server, POKED_DEADLINE) for _ in range(REHEARSALS)]
        if found := pin_by_metrics(poked):
            say(f"sleep is pinned by {found.asked}: it comes {found.correction.seconds * 1000:.1f} ms later")
            return found
        say("a poke by GET /metrics does not make this server sleep; learning the loop's own moment")
    else:
        say(f"before b{METRICS_PIN_BUILD} GET /metrics keeps a server awake; learning the loop's own moment")
    found_natural = pin_by_nature([dry_nature(server, NATURAL_DEADLINE) for _ in range(REHEARSALS)])
    if found_natural is None:
        say(CANNOT)
        return None
    late = found_natural.correction.seconds * 1000
    say(f"sleep is pinned by {found_natural.asked} ({late:+.1f} ms)")
    return found_natural


def pin_by_metrics(dry: Sequence[Dry]) -> MetricsPin | None:
    """None unless most of the pokes were followed by sleep at once."""
    delays = [each.delay for each in dry if each.delay is not None and obeyed_poke(each)]
    return MetricsPin(delays) if len(delays) >= OBEYED else None


def pin_by_nature(dry: Sequence[Dry]) -> NaturalPin | None:
    """None unless most sleeps came at the same moment after the limit."""
    delays = sorted(each.delay for each in dry if each.delay is not None)
    close = [each for each in delays if abs(each - Correction(delays).seconds) <= LARGEST_SPREAD]
    return NaturalPin(close) if len(close) >= OBEYED else None
