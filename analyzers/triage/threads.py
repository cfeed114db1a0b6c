"""Threads of the report: the faulting one first, then the queue loop, then the rest."""

from __future__ import annotations

from analyzers.contracts.facts import Frame
from analyzers.contracts.report import FrameView, Thread
from analyzers.stacks.frames import name_of, reader_kind, regex_splitter
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
    frames = [frame_view(frame, _tells(frame, reading, role)) for frame in stack.frames[:FRAME_LIMIT]]
    return Thread(
        tid=stack.tid, name=stack.name, crashed=stack.crashed, role=role, rung=stack.rung, frames=frames
    )


def _tells(frame: Frame, reading: StackReading, role: str | None) -> bool:
    name = frame.function or ""
    if role == "queue-loop":
        return any(tell in name for tell in LOOP_TELLS) or "common_init_result::~" in name
    if not (reading.stack.crashed or reading.waits_for_result):
        return False
    handler = reading.handler is not None and reading.handler in name_of(frame)
    deep = frame.repeat >= DEEP_RECURSION
    return (
        handler
        or deep
        or reader_kind(frame) == "model"
        or regex_splitter(frame)
        or "recv_with_timeout" in name
    )


def frame_view(frame: Frame, telling: bool = False) -> FrameView:
    """One frame of the report."""
    return FrameView(
        function=frame.function,
        module=frame.module,
        offset=f"{frame.offset:#x}" if frame.offset is not None else None,
        file=frame.file,
        line=frame.line,
        repeat=frame.repeat,
        telling=telling,
    )
