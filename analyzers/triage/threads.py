"""Threads of the report: the faulting one first, then the queue loop, then the rest."""

from __future__ import annotations

from collections.abc import Callable

from analyzers.contracts.facts import Frame
from analyzers.contracts.report import FrameView, Thread
from analyzers.stacks.frames import name_of, regex_splitter, route_handler
from analyzers.stacks.trust import stack_trust, trust_of
from analyzers.verdict.case import Case
from analyzers.verdict.reading import DEEP_RECURSION, StackReading

THREAD_LIMIT = 64  # a server has 10 to 40 threads; a fork bomb's core must not make a report of megabytes
FRAME_LIMIT = 80
LOOP_TELLS = (
    "server_queue::start_loop",
    "update_cached_responses",
    "load_model",
    "cond_wait",
    "cond_timedwait",
)
HTTP_TELLS = ("httplib::Server::process_request", "httplib::ThreadPool::worker")


def thread_views(case: Case) -> list[Thread]:
    """The best stack of each thread, in reading order."""
    best: dict[object, StackReading] = {}
    for reading in case.readings:
        key = reading.stack.tid if reading.stack.tid is not None else reading.id
        if key not in best or reading.rank > best[key].rank:
            best[key] = reading
    ordered = sorted(best.values(), key=lambda reading: _order(reading))
    return [_view(reading) for reading in ordered[:THREAD_LIMIT]]


def _order(reading: StackReading) -> int:
    role = role_of(reading)
    return 0 if reading.stack.crashed else 1 if role == "queue-loop" else 2 if reading.handler else 3


def role_of(reading: StackReading) -> str | None:
    """queue-loop, http or None."""
    names = [frame.function or "" for frame in reading.stack.frames]
    if any("server_queue::start_loop" in name for name in names):
        return "queue-loop"
    return "http" if any(tell in name for name in names for tell in HTTP_TELLS) else None


def _view(reading: StackReading) -> Thread:
    stack, role = reading.stack, role_of(reading)
    telling = _telling(reading, role)
    shown = stack.frames[:FRAME_LIMIT]
    frames = [frame_view(frame, at in telling, stack.rung) for at, frame in enumerate(shown)]
    return Thread(
        tid=stack.tid,
        name=stack.name,
        crashed=stack.crashed,
        role=role,
        rung=stack.rung,
        trust=stack_trust(stack),
        frames=frames,
    )


def _telling(reading: StackReading, role: str | None) -> set[int]:
    """Indexes of the few frames that decide: the loop and what it does, or reader, recursion and handler."""
    frames = reading.stack.frames
    if role == "queue-loop":
        return {at for at, frame in enumerate(frames) if any(t in (frame.function or "") for t in LOOP_TELLS)}
    if not (reading.stack.crashed or reading.waits_for_result):
        return set()
    tests: tuple[Callable[[Frame], bool], ...] = (
        lambda frame: name_of(frame) == reading.model_reader,
        lambda frame: frame.repeat >= DEEP_RECURSION,
        regex_splitter,
        lambda frame: "recv_with_timeout" in (frame.function or ""),
    )
    firsts = (next((at for at, frame in enumerate(frames) if test(frame)), None) for test in tests)
    handler = route_handler(reading.stack)
    return {at for at in (*firsts, handler.frame_index if handler else None) if at is not None}


def frame_view(frame: Frame, telling: bool = False, rung: str = "") -> FrameView:
    """One frame of the report, as found by ``rung``."""
    return FrameView(
        function=frame.function,
        module=frame.module,
        offset=f"{frame.offset:#x}" if frame.offset is not None else None,
        file=frame.file,
        line=frame.line,
        repeat=frame.repeat,
        telling=telling,
        trust=trust_of(frame, rung),
    )
