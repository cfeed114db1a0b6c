"""The loop over a journal's entries. Every busy host's every line goes through it: it is written to be cheap.

What an entry costs here is three calls of libsystemd for a line of nobody's, four for a server's; a line's
shape (see lines.py) decides whether more is done. Everything rare is somebody else's: see journal_entries.py.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any
from zlib import crc32

from collector.sources.follow.journal_entries import Entries, Out
from collector.sources.follow.journal_who import OTHER, SERVER
from collector.sources.follow.lines import MASK, UNKNOWN

JUMP = 1_000_000  # microseconds that the clocks may drift apart between two entries; NTP slews 0.5 ms/s


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection inside: evidence has no cycles, and looking for some there took a fifth of the
    time. What is made inside is bounded by the poll's limit."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Clocks:
    """The two clocks of the entry before, in microseconds; ``boot`` its raw boot id."""

    def __init__(self) -> None:
        self.boot = b""
        self.low = self.high = 0

    def keep(self, boot: bytes, offset: int) -> None:
        """``offset`` of the wall clock from the monotonic one is what the next entry is measured by."""
        self.boot, self.low, self.high = boot, offset - JUMP, offset + JUMP


def drain(reader: Any, entries: Entries, clocks: Clocks, out: Out, most: int, limit: int) -> tuple[int, str]:
    """Take entries from where ``reader`` stands until ``most`` were taken, ``limit`` evidence is out, or
    something needs the caller: (entries taken, why it ended).

    Why: "end" of the journal | "full" | "clock": the current entry is of another boot or its clocks jumped,
    and was not taken. Raises OSError for an entry that cannot be read.
    """
    step, get, realtime, monotonic = reader._next, reader._get, reader._get_realtime, reader._get_monotonic
    who_of, known, evidence = entries.who.get, entries.lines.known, out.evidence
    append = evidence.append
    boot_before, low, high = clocks.boot, clocks.low, clocks.high
    room = limit - len(evidence)
    for count in range(most):
        if room <= 0:
            return count, "full"
        if not step():
            return count, "end"
        wall = realtime()
        mono, boot = monotonic()
        if boot != boot_before or not low < wall - mono < high:
            return count, "clock"
        try:
            pid = get("_PID")
        except KeyError:
            entries.take_pidless(reader, wall, mono, out)
            continue
        who = who_of(pid) or entries.learn(reader, pid)
        if who.kind is OTHER:
            continue
        if who.kind is not SERVER:
            entries.take(reader, pid, wall, mono, out)
            room = limit - len(evidence)
            continue
        try:
            message = get("MESSAGE")
        except KeyError:
            continue
        seen = who.seen
        seen.lines += 1
        seen.wall_us, seen.mono_us = wall, mono
        template = known.get(message.translate(MASK), UNKNOWN)
        if type(template) is FunctionType:
            id_ = f"{who.prefix}{mono}-{crc32(message)}"
            append(template(message, id_, who.source, wall / 1e6, mono / 1e6, who.incarnation))
            seen.told += 1
            room -= 1
        elif template is not None:
            entries.message(message, who, wall, mono, out)
            room = limit - len(evidence)
            known = entries.lines.known
    return most, "full"
