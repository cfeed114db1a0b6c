"""One look at a living process without stopping it: what its threads do, whether bytes and time move.

Two looks some seconds apart are what tells a hang from slow work. Everything is read from /proc; nothing is
attached, nothing of the server runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import to_evidence
from analyzers.contracts.watched import LookFact, ThreadLook
from collector.sources.procfs import PROC, GoneError, Process

MAX_THREADS = 512  # a server has tens; a look must stay a matter of milliseconds
MAX_CHILDREN = 64
_UTIME, _STIME, _STATE, _PPID = 11, 12, 0, 1  # fields of stat after the name
_KIB = 1024
_NAME_LENGTH = 15  # TASK_COMM_LEN without its end


def look(pid: int) -> Evidence | None:
    """Evidence of one look at ``pid``, kernel-set; None when it is gone or hides everything."""
    try:
        with Process(pid) as process:
            fact, incarnation = _look(process), process.incarnation()
    except (GoneError, PermissionError):
        return None
    return _evidence(fact, incarnation)


def _look(process: Process) -> LookFact:
    status = process.read("status")
    tracer = _number(status, b"TracerPid")
    return LookFact(
        state=process.state(),
        cpu_seconds=process.cpu_seconds(),
        read_bytes=_read_bytes(process),
        resident_bytes=_resident(status),
        children=tuple(sorted(_children(process))),
        tracer=_name_of(tracer) if tracer else None,
        tracer_is_child=_parent_of(tracer) == process.pid if tracer else None,
        dumping=bool(_number(status, b"CoreDumping")),
        thread_count=process.threads(),
        threads=tuple(_threads(process)),
    )


def _threads(process: Process) -> Iterator[ThreadLook]:
    for task in sorted(process.names("task"), key=int)[:MAX_THREADS]:
        with suppress(GoneError, ValueError, IndexError):
            fields = process.read(f"task/{task}/stat").decode("ascii", "replace").rpartition(")")[2].split()
            ticks = int(fields[_UTIME]) + int(fields[_STIME])
            yield ThreadLook(
                tid=int(task),
                name=_clean(process.read(f"task/{task}/comm")),
                cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
                state=fields[_STATE],
                waits_in=_waits_in(process, task),
            )


def _waits_in(process: Process, task: str) -> str | None:
    with suppress(GoneError, PermissionError):
        where = _clean(process.read(f"task/{task}/wchan"))
        return where if where not in ("", "0") else None
    return None


def _read_bytes(process: Process) -> int | None:
    with suppress(PermissionError):
        return _number(process.read("io"), b"rchar")
    return None


def _resident(status: bytes) -> int | None:
    kib = _number(status, b"VmRSS")
    return kib * _KIB if kib is not None else None


def _children(process: Process) -> Iterator[str]:
    found = 0
    for task in process.names("task")[:MAX_THREADS]:
        with suppress(GoneError):
            for pid in process.read(f"task/{task}/children").split():
                name = _name_of(int(pid))
                if name and found < MAX_CHILDREN:
                    found += 1
                    yield name


def _name_of(pid: int) -> str | None:
    with suppress(OSError):
        return _clean((PROC / str(pid) / "comm").read_bytes()) or None
    return None


def _parent_of(pid: int) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        stat = (PROC / str(pid) / "stat").read_text("ascii", "replace")
        return int(stat.rpartition(")")[2].split()[_PPID])
    return None


def _number(text: bytes, name: bytes) -> int | None:
    for line in text.splitlines():
        if line.startswith(name + b":"):
            value = line.partition(b":")[2].split()
            return int(value[0]) if value and value[0].isdigit() else None
    return None


def _clean(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").rstrip("\n")[: 4 * _NAME_LENGTH]
    return "".join(char if char.isprintable() else "?" for char in text)


def _evidence(fact: LookFact, incarnation: Incarnation) -> Evidence:
    mono = time.monotonic()
    return to_evidence(
        fact,
        id=f"look-{incarnation.pid}-{int(mono * 1000)}",
        source=f"/proc/{incarnation.pid}",
        text=_reading(fact, incarnation.pid),
        trust=Trust.KERNEL,
        wall=time.time(),
        mono=mono,
        incarnation=incarnation,
    )


def _reading(fact: LookFact, pid: int | None) -> str:
    resident = "unknown" if fact.resident_bytes is None else f"{fact.resident_bytes / (1 << 20):.0f} MiB"
    parts = [f"process {pid}: {fact.thread_count} threads, {fact.cpu_seconds:.2f} s CPU, {resident} resident"]
    if fact.state in ("T", "t"):
        parts.append("stopped")
    if fact.dumping:
        parts.append("its core is being written")
    if fact.tracer:
        whose = ", which it started itself" if fact.tracer_is_child else ""
        parts.append(f"traced by {fact.tracer}{whose}")
    return "; ".join(parts)
