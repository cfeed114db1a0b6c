"""One sink's lane: a thread that does one call at a time, and when the next one may be."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from collector.outbox.sinks import Accepted, Answer, Later, Refused, Sink

FIRST_DELAY = 1.0  # seconds: a hub that restarts is back in a few
MOST_DELAY = 300.0  # a hub that was away all night has everything five minutes after it is back
MOST_ASKED = 3600.0  # of a sink's own wish: a wrong header must not silence it for a year
MOST_DOUBLINGS = 16
Job = Callable[[], Answer]


def delay(failures: int, jitter: float) -> float:
    """Seconds until the next try after ``failures`` in a row: full jitter, so that a thousand agents do not
    come back to a hub in the same second. ``jitter`` is 0 to 1, drawn evenly."""
    return jitter * min(MOST_DELAY, FIRST_DELAY * 2.0 ** min(failures, MOST_DOUBLINGS))


@dataclass
class Lane:
    """State of one sink. By incident (or incident/name), since the start: ``attempts`` counts answered
    failures, ``delivered_at`` how much had come through at the last one, ``waits`` until when."""

    sink: Sink
    failures: int = 0
    not_before: float = float("-inf")
    problem: str | None = None
    delivered: int = 0
    refused: int = 0
    seen: int = -1
    attempts: dict[str, int] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)
    delivered_at: dict[str, int] = field(default_factory=dict)
    busy: bool = False

    def __post_init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[object, Job] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[object, Answer]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"sink-{self.sink.name}", daemon=True)
        self._thread.start()

    def forget(self, key: str) -> None:
        """This one is settled."""
        for each in (self.attempts, self.delivered_at):
            each.pop(key, None)
        self.waits.pop(key, None)

    def start(self, what: object, job: Job) -> None:
        self.busy = True
        self._jobs.put((what, job))

    def answer(self, timeout: float = 0.0) -> tuple[object, Answer] | None:
        """What the call in flight came to, None while it still runs."""
        try:
            found = self._answers.get(timeout=timeout) if timeout else self._answers.get_nowait()
        except queue.Empty:
            return None
        self.busy = False
        return found

    def stop(self, timeout: float) -> None:
        """Let the thread end; one that hangs in a call is left behind."""
        self._jobs.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            what, job = item
            self._answers.put((what, _done(job)))
        try:
            self.sink.close()
        except Exception:  # noqa: BLE001 - foreign code, at its end
            return


def _done(job: Job) -> Answer:
    try:
        answer = job()
    except Exception as error:  # noqa: BLE001 - foreign code may fail in any way
        return Later(f"{type(error).__name__}: {str(error)[:200]}", answered=True)
    if isinstance(answer, Accepted | Refused | Later):
        return answer
    return Later(f"the sink answered a {type(answer).__name__}", answered=True)
