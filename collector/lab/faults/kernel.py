"""The kernel's own lines about a death, where this process may read them. Changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KMSG = Path("/dev/kmsg")
# One record per read, at most this long (LOG_LINE_MAX with its prefix in the kernel's printk).
RECORD = 8192
RECORDS_LIMIT = 100_000
# The ring's stamps come from the scheduler's clock, which drifts a little from CLOCK_MONOTONIC.
CLOCK_SLACK = 0.5
# show_signal_msg() of the kernel is behind printk's rate limit, ten lines in five seconds for all.
NO_LINE = "the kernel printed no line for this process: not every signal has one, and they are rate-limited"
_NAMED = re.compile(r"(?P<name>\S.{0,15}?)\[(?P<tid>\d+)\](?::| trap| general protection)")


@dataclass(frozen=True)
class KernelLine:
    """One line of the ring; ``mono`` is its stamp in seconds since boot."""

    mono: float
    text: str

    def as_dmesg(self) -> str:
        """The line as dmesg prints it."""
        return f"[{self.mono:12.6f}] {self.text}"


@dataclass(frozen=True)
class KernelLines:
    """The lines found, and why there may be none."""

    lines: tuple[KernelLine, ...] = ()
    note: str | None = None


def kernel_lines(since: float, tids: Iterable[int], ring: Path = KMSG) -> KernelLines:
    """Lines newer than ``since`` (seconds since boot) that name one of our thread ids.

    SIGABRT, SIGBUS and SIGKILL leave none. Where the ring may not be read the note says so.
    """
    try:
        descriptor = os.open(ring, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return KernelLines(
            note=f"the kernel's messages cannot be read ({error.strerror}); dmesg as root shows them"
        )
    wanted = set(tids)
    try:
        found = [
            line
            for line in _records(descriptor)
            if line.mono >= since - CLOCK_SLACK and tid_in(line.text) in wanted
        ]
    finally:
        os.close(descriptor)
    return KernelLines(tuple(found), None if found else NO_LINE)


def tid_in(text: str) -> int | None:
    """The thread id a fault line names, or None for other lines."""
    found = _NAMED.search(text)
    return int(found.group("tid")) if found else None


def parse_record(raw: bytes) -> KernelLine | None:
    """One record of /dev/kmsg, ``priority,sequence,microseconds,flags;text``; see dev-kmsg in the
    kernel's ABI documentation."""
    head, separator, text = raw.partition(b";")
    fields = head.split(b",")
    if not separator or len(fields) < 3 or not fields[2].isdigit():
        return None
    line = text.split(b"\n")[0].decode("utf-8", "replace")
    return KernelLine(int(fields[2]) / 1e6, line)


def _records(descriptor: int) -> Iterator[KernelLine]:
    for _ in range(RECORDS_LIMIT):
        try:
            raw = os.read(descriptor, RECORD)
        except BrokenPipeError:  # overwritten while we read: the next read goes on behind the gap
            continue
        except OSError:  # EAGAIN: the end of the ring for now
            return
        if not raw:
            return
        with suppress(ValueError):
            line = parse_record(raw)
            if line is not None:
                yield line
