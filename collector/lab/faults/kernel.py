"""The kernel's own lines about a death, of one server's threads. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from collector.sources.kernel import KMSG, KernelLine, read_kernel_lines

# The ring's stamps come from the scheduler's clock, which drifts a little from CLOCK_MONOTONIC.
CLOCK_SLACK = 0.5
NO_LINE = "the kernel printed no line for this process: not every signal has one, and they are rate-limited"
_NAMED = re.compile(r"(?P<name>\S.{0,15}?)\[(?P<tid>\d+)\](?::| trap| general protection)")


@dataclass(frozen=True)
class KernelLines:
    """The lines found, and why there may be none."""

    lines: tuple[KernelLine, ...] = ()
    note: str | None = None


def kernel_lines(since: float, tids: Iterable[int], ring: Path = KMSG) -> KernelLines:
    """Lines newer than ``since`` (seconds since boot) that name one of our thread ids.

    SIGABRT, SIGBUS and SIGKILL leave none. Where the ring may not be read the note says so.
    """
    read = read_kernel_lines(since - CLOCK_SLACK, kmsg=ring)
    if read.gaps:
        return KernelLines(note=read.gaps[0].why)
    wanted = set(tids)
    found = tuple(line for line in read.lines if tid_in(line.text) in wanted)
    return KernelLines(found, None if found else NO_LINE)


def tid_in(text: str) -> int | None:
    """The thread id a fault line names, or None for other lines."""
    found = _NAMED.search(text)
    return int(found.group("tid")) if found else None
