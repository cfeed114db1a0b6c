"""The kernel's own lines as they come, from /dev/kmsg; the record's number is the cursor.

Format: Documentation/ABI/testing/dev-kmsg of the kernel. Numbers start again with each boot.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import to_evidence
from analyzers.contracts.report import Gap
from analyzers.logs.kernel import parse_kernel_body
from analyzers.logs.text import visible
from collector.sources.follow.journal import JournalStream
from collector.sources.follow.position import decoded, encoded, number
from collector.sources.kernel import KMSG, parse_record
from collector.sources.procfs import boot_id
from collector.sources.stream import DEFAULT_LIMIT, Batch, StreamHealth

RECORD = 1 << 13  # bytes; a smaller buffer than the record gets EINVAL
RECORDS = 20_000  # of one poll; a full 16 MiB ring holds more
COMMAND = "sudo dmesg --raw --kernel > kernel.txt"


class KmsgStream:
    """The contract of sources/stream.py over /dev/kmsg. Without a cursor it begins now.

    ``device``: its path, or a descriptor of it that reads without blocking and is closed with this. Raises
    OSError when it may not be opened: then the journal's kernel lines are the source.
    """

    name = "kernel"

    def __init__(self, *, cursor: str | None = None, device: Path | int = KMSG) -> None:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = device if isinstance(device, int) else os.open(device, flags)
        self._boot = boot_id()
        stored = decoded(cursor)
        same = stored.get("boot") == self._boot
        self._sequence = number(stored, "sequence") if same else None
        self._resuming = self._sequence
        self._gaps: list[Gap] = []
        self._problem: str | None = None
        self._read = self._told = self._lost = 0
        if not stored:
            with suppress(OSError):
                os.lseek(self._descriptor, 0, os.SEEK_END)

    def fileno(self) -> int | None:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def health(self) -> StreamHealth:
        state = "ok" if self._problem is None else "failed"
        return StreamHealth(state, self._problem, self._read, self._told, self._lost)

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch:
        """New lines; an overrun of the kernel's ring is a gap that counts the lost records."""
        evidence: list[Evidence] = []
        more = True
        for _ in range(RECORDS):
            if len(evidence) >= limit:
                break
            record = self._next()
            if record is None:
                more = False
                break
            found = self._take(record) if record else None
            if found is not None:
                evidence.append(found)
        self._told += len(evidence)
        gaps, self._gaps = tuple(self._gaps), []
        return Batch(tuple(evidence), self._cursor(), gaps, more)

    def _cursor(self) -> str | None:
        if self._sequence is None:
            return None
        return encoded({"boot": self._boot, "sequence": self._sequence})

    def _next(self) -> bytes | None:
        """A record, empty for an overrun (the next read goes on at the oldest one), None at the end."""
        try:
            return os.read(self._descriptor, RECORD) or None
        except BlockingIOError:
            return None
        except BrokenPipeError:
            return b""
        except OSError as problem:
            self._problem = f"/dev/kmsg cannot be read on: {(problem.strerror or 'error').lower()}"
            return None

    def _take(self, record: bytes) -> Evidence | None:
        sequence = _sequence(record)
        if sequence is None:
            return None
        before, self._read = self._sequence, self._read + 1
        if self._resuming is not None:
            if sequence <= self._resuming:
                return None
            self._resuming = None
        self._sequence = sequence
        if before is not None and sequence > before + 1:
            self._overrun(sequence - before - 1)
        return self._evidence(record, sequence)

    def _overrun(self, count: int) -> None:
        self._lost += count
        why = f"{count} lines were overwritten in the kernel's ring before they were read"
        self._gaps.append(Gap(what="kernel lines", why=why, command=COMMAND))

    def _evidence(self, record: bytes, sequence: int) -> Evidence | None:
        line = parse_record(record)
        fact = parse_kernel_body(line.text) if line is not None else None
        if line is None or fact is None:
            return None
        return to_evidence(
            fact,
            id=f"kmsg-{(self._boot or '')[:8]}-{sequence}",
            source="kernel log",
            text=visible(line.text),
            trust=Trust.KERNEL,
            wall=time.time() - time.monotonic() + line.mono,
            mono=line.mono,
            incarnation=Incarnation(boot_id=self._boot),
        )


def _sequence(record: bytes) -> int | None:
    fields = record.partition(b";")[0].split(b",")
    return int(fields[1]) if len(fields) >= 3 and fields[1].isdigit() and len(fields[1]) < 20 else None


def kernel_source(
    journal: JournalStream | None, *, cursor: str | None = None, device: Path | int = KMSG
) -> KmsgStream | None:
    """The device where it may be read; else ``journal`` is told to read the kernel's lines, None returned."""
    try:
        stream = KmsgStream(cursor=cursor, device=device)
    except OSError:
        if journal is not None:
            journal.use_kernel(True)
        return None
    if journal is not None:
        journal.use_kernel(False)
    return stream
