"""Runs one of the host's own tools: bounded in time and output, its words never on our terminal."""

from __future__ import annotations

import io
import os
import select
import shlex
import signal
import stat
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from analyzers.privacy.visible import visible

TOOL_SECONDS = 10.0  # nvidia-smi on a host with eight cards that slept took 6 s; the others take milliseconds
TOOL_BYTES = 4 << 20
COMPLAINT_BYTES = 4096
CHUNK = 1 << 16
PIPE_SECONDS = 30.0  # a password store may ask for its own password first
OPENED_SECONDS = 2.0  # for a named pipe's writer to come at all; `<(command)` is open from the start
PIPE_PAUSE = 0.05
# What tools need to find their way, and nothing a secret could stand in.
KEPT_VARIABLES = ("PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "HOME")


@dataclass(frozen=True)
class Ran:
    """What a tool left. ``outcome``: ran | missing | time | size; ``dropped`` bytes were left out of the
    middle of ``out``, after its first ``head`` bytes."""

    out: bytes = b""
    complaint: str = ""
    status: int | None = None
    outcome: str = "ran"
    dropped: int = 0
    head: int = 0

    @property
    def ok(self) -> bool:
        return self.outcome == "ran" and self.status == 0

    @property
    def why(self) -> str:
        """Why there is no answer, in words, for a gap."""
        if self.outcome == "missing":
            return "the tool is not installed"
        if self.outcome == "time":
            return "the tool did not answer in time"
        said = next((line.strip() for line in self.complaint.splitlines() if line.strip()), "")
        return said[:200] or f"the tool ended with status {self.status}"


@dataclass
class Kept:
    """The first ``head_limit`` and the last ``tail_limit`` bytes of a stream, in flat memory."""

    head_limit: int
    tail_limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    tail_size: int = 0
    dropped: int = 0

    def feed(self, data: bytes) -> None:
        room = self.head_limit - len(self.head)
        self.head += data[:room] if room > 0 else b""
        rest = data[max(room, 0) :]
        if not rest:
            return
        self.tail.append(rest)
        self.tail_size += len(rest)
        while self.tail and self.tail_size - len(self.tail[0]) >= self.tail_limit:
            gone = self.tail.popleft()
            self.tail_size -= len(gone)
            self.dropped += len(gone)


def run(
    argv: Sequence[str], *, seconds: float = TOOL_SECONDS, head: int = TOOL_BYTES, tail: int | None = None
) -> Ran:
    """Run ``argv``. Without ``tail`` the tool is ended once it has said ``head`` bytes. Raises nothing."""
    kept = Kept(head, tail or 0)
    until = time.monotonic() + seconds
    with _complaints() as complaint:
        try:
            tool = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaint if complaint is not None else subprocess.DEVNULL,
                env=environment(),
                cwd="/",
                start_new_session=True,
            )
        except (OSError, ValueError):  # the latter for a NUL among the words
            return Ran(outcome="missing")
        with tool:
            outcome, status = _watched(tool, kept, until, stop_at=None if tail else head)
        said = _text(complaint) if complaint is not None else ""
    out = bytes(kept.head) + b"".join(kept.tail)
    return Ran(out, said, status, outcome, kept.dropped, len(kept.head))


@contextmanager
def _complaints() -> Iterator[IO[bytes] | None]:
    """A file for what a tool says on standard error; None where the host has no place for one."""
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    except OSError:
        yield None
        return
    with file:
        yield file


def _watched(tool: subprocess.Popen[bytes], kept: Kept, until: float, stop_at: int | None) -> tuple[str, int]:
    """(outcome, status). Ctrl-C and a stop by signal end the tool too: in its own session it gets neither."""
    try:
        outcome = _read(tool, kept, until, stop_at)
    except BaseException:
        _end(tool)
        raise
    if outcome != "ran":
        _end(tool)
    return outcome, tool.wait()


def _end(tool: subprocess.Popen[bytes]) -> None:
    """The tool and what it started, which may hold its output open."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(tool.pid, signal.SIGKILL)
    tool.kill()
    tool.wait()


def _read(tool: subprocess.Popen[bytes], kept: Kept, until: float, stop_at: int | None) -> str:
    assert tool.stdout is not None  # noqa: S101 - it was asked for
    number = tool.stdout.fileno()
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([number], [], [], left)[0]:
            return "time"
        data = os.read(number, CHUNK)
        if not data:
            return _ended(tool, until)
        kept.feed(data)
        if stop_at is not None and len(kept.head) >= stop_at:
            return "size"


def _ended(tool: subprocess.Popen[bytes], until: float) -> str:
    try:
        tool.wait(max(until - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        return "time"
    return "ran"


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    text = file.read(COMPLAINT_BYTES).decode("utf-8", "replace")
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    # Dates and words in one language; no pager, no colours, no debug server for symbols.
    return {
        "PATH": os.defpath,
        **kept,
        "LC_ALL": "C",
        "TZ": "UTC",
        "SYSTEMD_PAGER": "",
        "SYSTEMD_COLORS": "0",
    }


def open_quietly(path: Path, flags: int = 0) -> io.FileIO | None:
    """``path`` for reading, without waiting for a pipe's writer; None for a folder, or when it may not be."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except (OSError, ValueError):
        return None
    try:
        return io.FileIO(descriptor, "rb")
    except OSError:  # a folder, which only says so now
        os.close(descriptor)
        return None


def read_text(path: Path, limit: int = TOOL_BYTES) -> bytes | None:
    """Up to ``limit`` bytes of a small file of the host; None when it cannot be read."""
    file = open_quietly(path)
    if file is None:
        return None
    with io.BufferedReader(file) as whole:
        try:
            return whole.read(limit)
        except OSError:
            return None


def read_piped(path: Path, limit: int, seconds: float = PIPE_SECONDS) -> bytes | None:
    """``read_text``, of a pipe as well (``<(pass show key)``), whose writer may take a moment; None when
    nothing comes in ``seconds``."""
    file = open_quietly(path)
    if file is None:
        return None
    with file:
        if not stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            return read_text(path, limit)
        return _all_of(file, limit, time.monotonic() + seconds)


def _all_of(file: io.FileIO, limit: int, until: float) -> bytes | None:
    data = b""
    opened_until = min(until, time.monotonic() + OPENED_SECONDS)
    while len(data) < limit:
        left = until - time.monotonic()
        if left <= 0 or not select.select([file], [], [], left)[0]:
            return None
        part = os.read(file.fileno(), limit - len(data))
        if not part and not data and time.monotonic() < opened_until:
            time.sleep(PIPE_PAUSE)  # a named pipe that nobody has opened for writing yet reads as ended
            continue
        if not part:
            break
        data += part
    return data


def quoted(value: object) -> str:
    """``value`` as one word of a command that a person will copy: a path may be anybody's choice."""
    return shlex.quote(visible(str(value)))
