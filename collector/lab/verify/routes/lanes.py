"""Works through a survey on several servers at once: most of a trial is waiting for a sleep."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analyzers.contracts.routes import RouteTrial
from collector.lab.verify.routes.seat import Seat, StoppedError
from collector.lab.verify.routes.table import Route

# How often the waiting thread looks up, so that Ctrl-C is heard at once.
LOOK_SECONDS = 0.2
# A lane that is told to stop waits at most for the server that was just taken from it.
JOIN_SECONDS = 15.0

Attempt = Callable[[Seat, Route, str], RouteTrial]


@dataclass(frozen=True)
class Job:
    route: Route
    state: str


def work(seats: Sequence[Seat], jobs: Sequence[Job], attempt: Attempt) -> Iterator[RouteTrial]:
    """Every job once, on whichever seat is free; trials come as they are finished.

    An error in one lane ends all and is raised here. Closing the iterator takes every server down.
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    done: queue.SimpleQueue[RouteTrial | BaseException | None] = queue.SimpleQueue()
    threads = [_lane(seat, waiting, done, attempt) for seat in seats]
    try:
        yield from _finished(done, len(threads))
    finally:
        for seat in seats:
            seat.stop.set()
        for seat in seats:
            seat.leave()
        for thread in threads:
            thread.join(JOIN_SECONDS)


def _lane(
    seat: Seat,
    waiting: queue.SimpleQueue[Job],
    done: queue.SimpleQueue[RouteTrial | BaseException | None],
    attempt: Attempt,
) -> threading.Thread:
    def go() -> None:
        try:
            while not seat.stop.is_set():
                job = waiting.get_nowait()
                done.put(attempt(seat, job.route, job.state))
        except (queue.Empty, StoppedError):
            pass
        except BaseException as error:  # noqa: BLE001 - raised again where the run is
            done.put(error)
        finally:
            seat.leave()  # the kernel ties a server's life to the thread that started it
            done.put(None)

    thread = threading.Thread(target=go, name="routes-lane", daemon=True)
    thread.start()
    return thread


def _finished(done: queue.SimpleQueue[RouteTrial | BaseException | None], lanes: int) -> Iterator[RouteTrial]:
    while lanes:
        try:
            item = done.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            continue
        if isinstance(item, BaseException):
            raise item
        if item is None:
            lanes -= 1
        else:
            yield item
