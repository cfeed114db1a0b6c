"""Run one stack tool bounded and confined.

A core and the objects it names may come from a stranger, and the tools that read them parse formats
that have been exploited before. So each tool runs as a child that can burn only a fixed amount of time,
memory and output, cannot reach the network, cannot write files and dies with us.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from analyzers.stacks import jail

READ_SIZE = 1 << 16  # one full pipe buffer per read
STDERR_BYTES = 1 << 16  # diagnostics only: a tool that complains endlessly is cut there


@dataclass(frozen=True)
class Finished:
    """What a tool left behind. ``status`` is the exit code, negative for a signal.

    ``cut_off``: None, or which bound ended it: "time", "output". ``seconds`` is wall time.
    ``peak_memory`` is the resident peak in bytes by wait4, never less than our own size at the fork,
    because the kernel carries the peak over an exec. ``loose`` names the confinements that this host
    did not allow ("network", "user", …).
    """

    stdout: bytes
    stderr: bytes
    status: int
    cut_off: str | None = None
    seconds: float = 0.0
    peak_memory: int = 0
    loose: tuple[str, ...] = ()


@dataclass
class Running:
    """A confined child that is still alive; ``loose`` as in Finished."""

    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)
    loose: tuple[str, ...] = ()

    def kill(self) -> None:
        """End the child and everything in its process group; harmless when it is already gone."""
        # Only before it is reaped: after that the number may belong to somebody else.
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self.process.kill()

    def reap(self) -> tuple[int, int]:
        """Wait for the end; (exit status, resident peak in bytes). Closes the pipes."""
        _, raw, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(raw)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                _close(pipe)
        return self.process.returncode, usage.ru_maxrss * 1024


def find_tool(name: str) -> str | None:
    """Absolute path of a tool, or None. Relative PATH entries are skipped: the working directory may be
    the folder of a stranger's bundle."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(entry, name) for entry in entries if os.path.isabs(entry))
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


_BEGUN: dict[object, Running] = {}


def begin(argv: Sequence[str], *, seconds: float, memory_bytes: int, mapped_bytes: int = 0) -> None:
    """As ``start``, for a ``run`` with the same command and bounds that is still to come."""
    child = start(argv, seconds=seconds, memory_bytes=memory_bytes, mapped_bytes=mapped_bytes)
    _BEGUN[(tuple(argv), seconds, memory_bytes, mapped_bytes, (), 0)] = child


def end_begun() -> None:
    """End and forget every child of ``begin`` that no ``run`` has taken."""
    while _BEGUN:
        _, child = _BEGUN.popitem()
        child.kill()
        child.reap()


def start(
    argv: Sequence[str],
    *,
    seconds: float,
    memory_bytes: int,
    mapped_bytes: int = 0,
    pass_fds: Sequence[int] = (),
    processes: int = 0,
) -> Running:
    """Start ``argv`` (a list, never a shell line) confined, with pipes on all three streams.

    ``memory_bytes`` bounds private memory; ``mapped_bytes`` is added to the address space for the core
    that the tool maps read-only; ``processes`` lets it have so many of its own, which holds when we are
    root (another user's count would include everything else of theirs). Raises OSError when the program
    cannot be started.
    """
    limits = jail.Limits(seconds, memory_bytes, mapped_bytes, processes)
    report_read, report_write = os.pipe()
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=jail.environment(),
            cwd="/",  # so that no start-up file of the current folder is picked up
            start_new_session=True,  # one group to kill, no terminal to talk to
            pass_fds=tuple(pass_fds),
            preexec_fn=jail.prepare(limits, report_write),
        )
    finally:
        os.close(report_write)
        loose = jail.read_report(report_read)
    return Running(process, started=begun, loose=loose)


def run(
    argv: Sequence[str],
    *,
    seconds: float,
    memory_bytes: int,
    output_bytes: int,
    mapped_bytes: int = 0,
    pass_fds: Sequence[int] = (),
    given: bytes = b"",
    processes: int = 0,
) -> Finished:
    """Run ``argv`` to its end or to the first bound; never raises for what the tool does.

    ``output_bytes`` bounds standard output; ``given`` (at most a pipe buffer, 64 KiB) is its standard
    input. Raises OSError when the program cannot be started.
    """
    key = (tuple(argv), seconds, memory_bytes, mapped_bytes, tuple(pass_fds), processes)
    child = _BEGUN.pop(key, None) or start(
        argv,
        seconds=seconds,
        memory_bytes=memory_bytes,
        mapped_bytes=mapped_bytes,
        pass_fds=pass_fds,
        processes=processes,
    )
    try:
        _feed(child, given)
        stdout, stderr, cut_off = _collect(child, seconds, output_bytes)
    finally:
        child.kill()
        status, peak = child.reap()
    return Finished(stdout, stderr, status, cut_off, time.monotonic() - child.started, peak, child.loose)


def _feed(child: Running, given: bytes) -> None:
    pipe = child.process.stdin
    if pipe is None:
        return
    try:
        pipe.write(given[:READ_SIZE])
        pipe.close()
    except OSError:
        _close(pipe)


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except OSError:
        return


def _collect(child: Running, seconds: float, output_bytes: int) -> tuple[bytes, bytes, str | None]:
    deadline = child.started + seconds
    bounds = {"stdout": output_bytes, "stderr": STDERR_BYTES}
    taken: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    cut_off = None
    with selectors.DefaultSelector() as selector:
        for name in taken:
            selector.register(getattr(child.process, name), selectors.EVENT_READ, name)
        while selector.get_map() and cut_off is None:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                cut_off = "time"
            for key, _ in ready:
                cut_off = _take(selector, key, taken, bounds) or cut_off
    return bytes(taken["stdout"]), bytes(taken["stderr"]), cut_off or _await_end(child, deadline)


def _take(
    selector: selectors.BaseSelector,
    key: selectors.SelectorKey,
    taken: dict[str, bytearray],
    bounds: dict[str, int],
) -> str | None:
    room = bounds[key.data] - len(taken[key.data])
    chunk = os.read(key.fd, READ_SIZE)
    if not chunk:
        selector.unregister(key.fileobj)
    taken[key.data] += chunk[: max(0, room)]
    return "output" if len(chunk) > room and key.data == "stdout" else None


def _await_end(child: Running, deadline: float) -> str | None:
    """Both streams are closed; the child gets the rest of its time to end by itself."""
    pidfd = os.pidfd_open(child.process.pid) if hasattr(os, "pidfd_open") else -1
    if pidfd < 0:
        return None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(pidfd, selectors.EVENT_READ)
            return None if selector.select(max(0.0, deadline - time.monotonic())) else "time"
    finally:
        os.close(pidfd)
