"""One call of the handler: ours or not, and what becomes of either.

Nothing here may keep a foreign crash from reaching the handler it would have reached without us.
"""

import os
from errno import ESRCH

from collector.capture.crash import limits, stall
from collector.capture.crash import settings as own
from collector.capture.crash.decide import server_mark
from collector.capture.crash.kmsg import tell
from collector.capture.crash.passon import pass_on
from collector.capture.crash.proc import Process, pid_of
from collector.capture.crash.request import Crash, parse

CORE = 0  # the descriptor on which the kernel hands over the core
PIDFD = 3  # COREDUMP_PIDFD_NUMBER: where it puts the one that %F names


def handle(words: list[str], folder: str) -> int:
    """``words``: the arguments; ``folder``: where settings and previous pattern stand. The exit status."""
    try:
        crash = parse(words)
    except (ValueError, KeyError) as problem:
        tell(f"called in a way the kernel does not: {problem}")
        return 2
    return dispose(crash, folder)


def dispose(crash: Crash, folder: str, process: Process | None = None) -> int:
    """Keep the crash whose core stands on descriptor 0, or pass it on. The exit status; does not return when
    another program takes over. ``process``: where it is held open already."""
    try:
        process = process or held(crash)
        kept = _keep(process, crash, folder)
    except Exception as problem:  # noqa: BLE001  a fault of ours must not swallow another program's core
        tell(f"PID {crash.pid}: {type(problem).__name__}: {problem}; passed on")
        kept = None
        stall.end_after(0)
    return kept if kept is not None else pass_on(crash, previous(folder), process)


def held(crash: Crash) -> Process:
    """The dying process, opened once for all that follows. Raises OSError when it is gone.

    The kernel's pidfd tells that the number is still its own: without core_pipe_limit it may be another's.
    """
    process = Process(crash.pid)
    if crash.number("F") == PIDFD and pid_of(PIDFD) not in (None, crash.pid):
        os.close(process.folder)
        raise ProcessLookupError(ESRCH, "it is gone")
    return process


def _keep(process: Process, crash: Crash, folder: str) -> int | None:
    """None when the crash is to be passed on, untouched."""
    settings = own.read_settings(folder)
    stall.end_after(limits.DECIDE_HANG_SECONDS)  # its program may lie on a file system of its own
    mark = server_mark(process, settings.names)
    stall.end_after(0)
    if mark is None:
        return None
    from collector.capture.crash.keeping import keep_crash
    from collector.capture.crash.store import RefusedError

    try:
        return keep_crash(process, crash, settings, mark, CORE)
    except RefusedError as problem:
        tell(f"PID {crash.pid} was not captured: {problem}; passed on")
        return None


def previous(folder: str) -> str:
    """The pattern that was set before, or the kernel's own default where nobody can be trusted to say."""
    try:
        return own.read_previous(folder)
    except (OSError, ValueError) as problem:
        tell(f"the previous core_pattern is not known ({problem}); taken for {own.KERNEL_DEFAULT!r}")
        return own.KERNEL_DEFAULT
