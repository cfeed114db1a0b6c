"""What each request takes on this machine, and what the awake server answers, before anything is pinned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from analyzers.errors import UserError
from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import CORE_SIGNALS, DEATH_DEADLINE
from collector.lab.reference.client import Answer, Request
from collector.lab.reference.conditions import exited
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.answers import differ, repeatable
from collector.lab.verify.judge import ended_awake, oom_kills
from collector.lab.verify.pinned.clock import written
from collector.lab.verify.pinned.shapes import Shape
from collector.lab.verify.pinned.windows import Window, post_window, reader_window

# Awake sends of each request: the first one of a process is slower; where two differ, nothing is compared.
SENDS = 3
# The cheap twin of a request is sent more often: a busy machine delays one of them, rarely most of them.
TWIN_SENDS = 3
# A measurement in which no window was found is repeated: load comes and goes.
MEASUREMENTS = 3
# Printed when the loop takes up a task: the first sight from outside that the request's tasks were posted.
TAKEN_UP = "processing task"
LINE_DEADLINE = 0.5
# From a broken connection to the end of its process, which writes no core.
ENDING_DEADLINE = 5.0
# Of a token count: counted, or a build without the route, which the trials then say.
COUNTED = (200, 404)
NO_WINDOW = "this machine answers too fast, or too unevenly, for a sleep to be placed in the window"


@dataclass(frozen=True)
class Awake:
    """The awake answer to one shape's request. ``seconds`` of the slowest; ``problem`` says why trials of
    this shape can say nothing, None when they can. ``window`` is None for a shape that is not pinned.
    ``again``: another awake answer that says something else, None where all said the same."""

    answer: Answer
    seconds: float
    window: Window | None = None
    problem: str | None = None
    again: Answer | None = None


@dataclass(frozen=True)
class Sent:
    """One awake send: its answer, and when its first task was taken up (seconds from sending)."""

    answer: Answer
    posted: float | None


def calibrate(lab: ReferenceServer, spec: ServerSpec, shape: Shape) -> Awake:
    """What the shape's awake answers were, on a server that never sleeps.

    Poisoned when the shape is: filling freed memory takes time. Raises UserError when it does not start, or
    is ended from outside meanwhile: out of memory, most likely, which would end every trial as well.
    """
    oom = oom_kills()
    server = lab.start(replace(spec, idle_seconds=-1, poisoned=shape.poisoned))
    try:
        server.send(touch())
        for _ in range(MEASUREMENTS):
            if (awake := _awake(server, shape)).problem != NO_WINDOW:
                break
        return _unless_ended(server, awake, oom)
    finally:
        server.take_down()


def _unless_ended(server: RunningServer, awake: Awake, oom: int | None) -> Awake:
    """``awake``, unless the server did not survive its own measurement: then that is what is said."""
    if awake.answer.status is None:  # a broken connection announces an end
        server.wait_until(exited, DEATH_DEADLINE if server.dumping else ENDING_DEADLINE)
    ending = server.ending
    if ending is None:
        return awake
    how = ended_awake(ending.signal, ending.code, oom)
    if ending.signal is not None and ending.signal not in CORE_SIGNALS:
        raise UserError(
            f"in the awake measurement {how}",
            where=str(server.spec.program),
            remedy="free some memory (dmesg names what the kernel killed), then run it again",
        )
    return replace(awake, window=None, problem=f"in the awake measurement {how}")


def _awake(server: RunningServer, shape: Shape) -> Awake:
    sends = [send_awake(server, shape.request) for _ in range(SENDS)]
    answers = [each.answer for each in sends]
    other = next((each for each in answers if differ(answers[-1], each)), None)
    problem = _unusable(answers, shape)
    awake = Awake(answers[-1], max(each.seconds for each in answers), problem=problem, again=other)
    if shape.asleep or awake.problem is not None:
        return awake
    window = _post(server, shape, sends) if shape.plain else _reader(answers)
    return replace(awake, window=window, problem=None if window else NO_WINDOW)


def _unusable(answers: list[Answer], shape: Shape) -> str | None:
    silent = [answer.error for answer in answers if answer.status is None]
    if silent:
        return f"the awake server does not answer this request ({silent[0]})"
    if shape.asleep and (refused := [each.status for each in answers if each.status not in COUNTED]):
        return f"the awake server answers a token count with {refused[0]}"  # it may not have read anything
    return None


def _reader(answers: list[Answer]) -> Window | None:
    return reader_window(min(answer.seconds for answer in answers))


def _post(server: RunningServer, shape: Shape, sends: list[Sent]) -> Window | None:
    assert shape.plain is not None  # noqa: S101 - checked by the caller
    reads = [send_awake(server, shape.plain).posted for _ in range(TWIN_SENDS)]
    posts = [each.posted for each in sends]
    if None in reads or None in posts:
        return None
    return post_window(median(filter(None, reads)), min(filter(None, posts)))


def send_awake(server: RunningServer, request: Request) -> Sent:
    """One send, and the arrival of the first line that says a task of it was taken up."""
    pending = server.begin(repeatable(request))
    answer = pending.wait(request.timeout + LINE_DEADLINE)
    if answer is None:
        raise TimeoutError(request.route)
    waited = LINE_DEADLINE if answer.status == 200 else 0.0
    server.wait_until(lambda each: taken_up_since(each, answer.sent) is not None, waited)
    moment = taken_up_since(server, answer.sent)
    return Sent(answer, None if moment is None else moment - answer.sent)


def taken_up_since(server: RunningServer, moment: float) -> float | None:
    """When the loop took up its first task after ``moment``, by the line's stamp; None when it did not."""
    lines = server.output.lines()
    for line in lines:
        if line.mono > moment and TAKEN_UP in line.text:
            return written(line, lines)
    return None
