"""Runs one tracing tool on a live process: bounded, the standstill of each thread measured from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from collector.sources.procfs import GoneError, Process

_LOOK_EVERY = 0.0005  # seconds: the resolution of the stop times, at a few percent of a CPU while it lasts
_MAX_WATCHED = 256  # threads whose stop time is measured; looking at more would take longer than the stops
_OUTPUT_BYTES = 32 << 20  # a thousand threads of 64 frames with long template names
_COMPLAINT_BYTES = 1 << 16


@dataclass(frozen=True)
class Traced:
    """What the tool left. ``cut_off`` None, ``time`` or ``output``; ``seconds`` wall time; ``longest_stop``
    seconds of the thread that was held longest, to within half a millisecond."""

    output: str
    complaint: str
    status: int
    cut_off: str | None = None
    seconds: float = 0.0
    longest_stop: float = 0.0


@dataclass
class _StopWatch:
    """Adds up, per thread, how long it was seen in a tracing stop."""

    process: Process
    held: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        now = time.monotonic()
        step, self._last = now - self._last, now
        for task in self.process.names("task")[:_MAX_WATCHED]:
            with suppress(GoneError):
                if self.process.read(f"task/{task}/stat").rpartition(b")")[2].split()[:1] == [b"t"]:
                    self.held[task] = self.held.get(task, 0.0) + step


def trace(argv: list[str], process: Process, seconds: float) -> Traced:
    """Run ``argv`` for at most ``seconds``; a tool that is killed never leaves the process stopped."""
    began = time.monotonic()
    watch = _StopWatch(process)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaint:
        tool = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=complaint,
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )
        cut_off = _watch(tool, out, watch, began + seconds)
        if cut_off is not None:
            _end(tool, process)
        return Traced(
            _text(out, _OUTPUT_BYTES),
            _text(complaint, _COMPLAINT_BYTES),
            tool.wait(),
            cut_off,
            time.monotonic() - began,
            max(watch.held.values(), default=0.0),
        )


def _watch(tool: subprocess.Popen[bytes], out: IO[bytes], watch: _StopWatch, until: float) -> str | None:
    while tool.poll() is None:
        if time.monotonic() > until:
            return "time"
        if os.fstat(out.fileno()).st_size > _OUTPUT_BYTES:
            return "output"
        with suppress(GoneError):
            watch.look()
        time.sleep(_LOOK_EVERY)
    return None


def _end(tool: subprocess.Popen[bytes], process: Process) -> None:
    tool.kill()
    tool.wait()
    # The kernel lets the threads go when their tracer dies, but the stop signal of an attach that was just
    # under way would still arrive and stop the whole server for good. A continue signal takes it away.
    sender = getattr(signal, "pidfd_send_signal", None)
    with suppress(OSError):
        if process.pidfd is not None and sender is not None:
            sender(process.pidfd, signal.SIGCONT)
        else:
            os.kill(process.pid, signal.SIGCONT)


def _environment() -> dict[str, str]:
    # No DEBUGINFOD_URLS: a server must not stand still while a tool asks the network for symbols.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def _text(file: IO[bytes], limit: int) -> str:
    file.seek(0)
    return file.read(limit).decode("utf-8", "replace")
