"""What a failed configure or compile means, in one line with its remedy."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from analyzers.errors import UserError
from collector.lab.native.steps import StepFailedError, first_with

# Of a compiler's message, what a person can read at a glance.
SHOWN = 200
# First match wins: a full disk and a killed compiler are followed by errors that only sound like others.
_CAUSES = (
    (
        re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE),
        "the disk is full",
        "free some space (reference clean --trees), then run it again: what is compiled is kept",
    ),
    (
        re.compile(r"Killed signal terminated program|fatal error: Killed|internal compiler error: Killed"),
        "the compiler was killed, most likely for lack of memory",
        "run it again with --jobs 1: what is compiled is kept",
    ),
    (
        re.compile(r"virtual memory exhausted|cc1plus: out of memory|std::bad_alloc", re.IGNORECASE),
        "the compiler ran out of memory",
        "run it again with --jobs 1: what is compiled is kept",
    ),
    (
        re.compile(
            r"CMAKE_C(XX)?_COMPILER not set|No CMAKE_C(XX)?_COMPILER could be found|is not able to compile"
        ),
        "cmake finds no compiler that works",
        "run: apt-get install -y --no-install-recommends g++ libc6-dev",
    ),
    (
        re.compile(r"cannot find (-l|lib)(asan|asan_preinit)"),
        "the compiler's AddressSanitizer library is missing",
        "run: apt-get install -y --no-install-recommends g++",
    ),
    (
        re.compile(r"CMake \d[\d.]* or higher is required"),
        "cmake is too old for this build",
        "install a newer cmake, for example: python3 -m pip install cmake",
    ),
)
_ERROR = re.compile(r"(?i)(?<![\w-])(fatal )?error\b")
_MISSING = re.compile(r"^(?P<program>\S+): No such file or directory$")
EXIT_NO_PROGRAM = 127


class BuildFailedError(UserError):
    """A native build failed; ``log`` keeps everything the tools said."""

    def __init__(self, what: str, log: Path, remedy: str) -> None:
        super().__init__(what, where=str(log), remedy=remedy)
        self.log = log


def told(error: StepFailedError, log: Path) -> BuildFailedError:
    """The error of a step as a user can act on it; ``log`` stands in the work tree."""
    for pattern, what, remedy in _CAUSES:
        line = first_with(error.lines, pattern)
        if line is not None:
            return BuildFailedError(f"{what} ({_short(line, log)})", log, remedy)
    return _other(error, log)


def _other(error: StepFailedError, log: Path) -> BuildFailedError:
    if error.status == -signal.SIGKILL:
        return BuildFailedError(
            "the build was killed from outside, perhaps for lack of memory",
            log,
            "run it again with --jobs 1: what is compiled is kept",
        )
    line = first_with(error.lines, _ERROR) or (error.lines[-1] if error.lines else "it said nothing")
    return BuildFailedError(
        f"the build failed: {_short(line, log)}", log, "read the log there; it holds every message"
    )


def _short(line: str, log: Path) -> str:
    """A message with paths as they are in the source tree."""
    return line.replace(f"{log.parent}/llama.cpp/", "").strip()[:SHOWN]
