"""What the agent asks the judging child, as data between the two processes."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.report import Process

PROC = Path("/proc")


@dataclass(frozen=True)
class Request:
    """One judgement: what is known, and where more may lie. ``wall`` Unix seconds of the death, None for a
    server that lives; ``folder`` its working folder, ``logs`` files it printed to, ``store`` of captures."""

    incarnation: Incarnation
    evidence: tuple[Evidence, ...]
    process: Process
    wall: float | None = None
    unit: str | None = None
    signal: int | None = None
    folder: str | None = None
    logs: tuple[str, ...] = ()
    store: str | None = None


@dataclass(frozen=True)
class Left:
    """What a process will leave behind: its working ``folder`` and the regular files it prints to."""

    folder: str | None = None
    logs: tuple[str, ...] = ()


def left_by(pid: int, log_file: str | None = None, proc: Path = PROC) -> Left:
    """Looked up while the process lives; after its death nothing tells."""
    folder, logs = None, []
    with suppress(OSError):
        folder = os.readlink(proc / str(pid) / "cwd")
    for number in (2, 1):
        with suppress(OSError):
            link = proc / str(pid) / "fd" / str(number)
            if stat.S_ISREG(os.stat(link).st_mode):
                logs.append(os.readlink(link))
    if log_file is not None:
        logs.append(os.path.join(folder or "/", log_file))
    return Left(folder, tuple(dict.fromkeys(logs)))
