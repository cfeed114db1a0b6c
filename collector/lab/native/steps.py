"""Runs one program of a build to its end: its lines logged and heard, its family taken down on Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from collector.lab.reference.output import printable
from collector.lab.reference.processes import Child
from collector.lab.reference.spec import launched

# A link line of the server has 12 KB; what is longer is no line of a compiler.
LINE_LIMIT = 1 << 16
# A whole build with warnings logs under 1 MB.
LOG_LIMIT = 64 << 20
# Lines a failure can be told from; a compiler may print pages of notes after its first error.
KEPT_LINES = 2000
TAKE_DOWN_GRACE = 10.0
# Set by a user for other builds, each would change what comes out without changing the build's key.
_FOREIGN = re.compile(
    r"LC_.*|LANGUAGE|(CMAKE|CCACHE|LLAMA|GGML|SETUPTOOLS_SCM)_.*|(C|CXX|CPP|LD|ASM)FLAGS|DESTDIR|(MAKE|NINJA)FLAGS"
)
Heard = Callable[[str], None]


@dataclass(frozen=True)
class Step:
    """``argv`` in folder ``cwd``; its output goes to ``log`` (appended). ``extra`` is added to a cleaned
    environment in the C locale."""

    argv: tuple[str, ...]
    cwd: Path
    log: Path
    extra: Mapping[str, str]


class StepFailedError(Exception):
    """The program did not succeed: ``status`` (negative: a signal) and the last of its lines."""

    def __init__(self, status: int, lines: list[str]) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.lines = lines


def run_step(step: Step, heard: Heard = lambda _: None) -> None:
    """Run it; every line is printable, on disk and handed to ``heard``. Raises StepFailedError."""
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    popen = subprocess.Popen(
        launched(list(step.argv)),
        cwd=step.cwd,
        env=clean_environment(os.environ, step.extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    child = Child(popen, lambda: None)
    try:
        with step.log.open("ab") as log:
            for line in _lines(popen, log.write):
                lines.append(line)
                heard(line)
        status = popen.wait()
    finally:
        child.take_down(TAKE_DOWN_GRACE)
    if status:
        raise StepFailedError(status, list(lines))


def _lines(popen: subprocess.Popen[bytes], write: Callable[[bytes], object]) -> Iterator[str]:
    assert popen.stdout is not None  # noqa: S101 - it was asked for
    written = 0
    with popen.stdout as pipe:
        while raw := pipe.readline(LINE_LIMIT):
            if (written := written + len(raw)) <= LOG_LIMIT:
                write(raw)
            yield printable(raw.decode("utf-8", "replace").rstrip(), LINE_LIMIT)


def clean_environment(present: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """``present`` without what would steer a build unseen, in the C locale (it decides the compilers'
    messages, and what a compiler cache takes for the same), plus ``extra``."""
    kept = {name: value for name, value in present.items() if not _FOREIGN.fullmatch(name)}
    return {**kept, "LANG": "C.UTF-8", **extra}


def first_with(lines: Iterable[str], pattern: re.Pattern[str]) -> str | None:
    """The first line that ``pattern`` is found in."""
    return next((line for line in lines if pattern.search(line)), None)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends a build as Ctrl-C does: compilers down, nothing half-built handed out."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
