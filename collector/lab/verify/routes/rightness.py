"""What the awake server answers to each route, and whether another answer is as right as that."""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.contracts.routes import RIGHT, STATUS_ONLY, WRONG
from analyzers.contracts.trials import ANSWERED
from collector.lab.reference.client import Answer
from collector.lab.reference.server import RunningServer
from collector.lab.verify import answers
from collector.lab.verify.routes.table import Route, is_absent

# Two awake answers that differ show that a route's answers vary by themselves.
BASELINES = 2


@dataclass(frozen=True)
class Baseline:
    """The awake answer to a route. ``steady``: asked again, the server said the same."""

    answer: Answer
    steady: bool

    @property
    def absent(self) -> bool:
        return is_absent(self.answer)


def baseline(server: RunningServer, route: Route) -> Baseline:
    """Ask an awake server twice. Without an answer there is nothing to compare with, and it says so."""
    first, *others = [server.send(route.request()) for _ in range(BASELINES)]
    same = all(answers.telling(other) == answers.telling(first) for other in others)
    return Baseline(first, same and not route.varies)


def rightness(answer: Answer, awake: Baseline) -> str | None:
    """yes | no | status; None without an answer, or without one to compare with."""
    if answer.status is None or awake.answer.status is None:
        return None
    if not awake.steady:
        return STATUS_ONLY if answer.status == awake.answer.status else WRONG
    return RIGHT if answers.telling(answer) == answers.telling(awake.answer) else WRONG


def outcome_of(answer: Answer, awake: Baseline) -> str:
    """Outcome of a request that got an answer; a refusal that the awake server gives as well is an answer."""
    if rightness(answer, awake) in (RIGHT, STATUS_ONLY):
        return ANSWERED
    return answers.outcome_of(answer, awake.answer)
