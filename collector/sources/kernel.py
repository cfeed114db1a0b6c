"""The kernel's own lines, newer than a mark: what it said about a crash a moment ago.

Records of /dev/kmsg: Documentation/ABI/testing/dev-kmsg of the kernel. Any root process may write there
too, but never under the kernel's facility: only lines of facility 0 are taken.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import KernelFact, to_evidence
from analyzers.contracts.report import Gap

KMSG = Path("/dev/kmsg")
_RESTRICT = Path("/proc/sys/kernel/dmesg_restrict")
_RECORD_SIZE = 1 << 13  # PRINTKRB_RECORD_MAX is 1 KiB plus escapes; a smaller buffer gets EINVAL
MAX_LINES = 20_000  # a full 16 MiB ring holds more; what a crash prints stands at its end
_DMESG_SECONDS = 10.0
_DMESG_LINE = re.compile(rb"^<(\d{1,4})>\[\s*(\d{1,12}\.\d{1,9})\] (.*)$")
_MAX_TEXT = 2048

Parse = Callable[[str], "KernelFact | None"]


@dataclass(frozen=True)
class KernelLine:
    """One line. ``mono`` is seconds since boot on the kernel log's clock, which follows CLOCK_MONOTONIC to
    a few milliseconds; ``text`` has no newline, odd bytes escaped as ``\\xNN`` by the kernel."""

    mono: float
    text: str


@dataclass(frozen=True)
class KernelRead:
    """Lines in the kernel's order. ``lost``: some were overwritten before they could be read."""

    lines: tuple[KernelLine, ...] = ()
    gaps: tuple[Gap, ...] = ()
    lost: bool = False


def kernel_mark() -> float:
    """A mark for ``read_kernel_lines``: now, in seconds of CLOCK_MONOTONIC."""
    return time.monotonic()


def read_kernel_lines(since: float, *, kmsg: Path = KMSG) -> KernelRead:
    """Kernel lines with ``mono`` at or after ``since``, without waiting; a gap where they may not be read."""
    try:
        return _read_device(since, kmsg)
    except OSError as problem:
        if problem.errno not in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
            return KernelRead(gaps=(_not_permitted(problem),))
    return _read_dmesg(since)  # a container may lack the device and still be allowed to ask


def to_kernel_evidence(lines: tuple[KernelLine, ...], parse: Parse) -> list[Evidence]:
    """KernelFact evidence of the lines that ``parse`` makes something of; others are none of our business."""
    boot = time.time() - time.monotonic()
    found = []
    for number, line in enumerate(lines):
        fact = parse(line.text)
        if fact is not None:
            found.append(
                to_evidence(
                    fact,
                    id=f"kernel-{number}-{int(line.mono * 1e6)}",
                    source="kernel log",
                    text=line.text,
                    trust=Trust.KERNEL,
                    wall=boot + line.mono,
                    mono=line.mono,
                )
            )
    return found


def as_dmesg(lines: tuple[KernelLine, ...]) -> str:
    """The lines in dmesg's own form, as an input for triage."""
    return "".join(f"[{line.mono:12.6f}] {line.text}\n" for line in lines)


def parse_record(record: bytes) -> KernelLine | None:
    """One /dev/kmsg record; None when it is no kernel line. Continuations (``KEY=value``) are left out."""
    head, _, rest = record.partition(b";")
    fields = head.split(b",")
    if len(fields) < 3 or not all(field.isdigit() and len(field) < 20 for field in fields[:3]):
        return None
    if int(fields[0]) >> 3 != 0:
        return None
    return KernelLine(int(fields[2]) / 1e6, _clean(rest.partition(b"\n")[0]))


def parse_dmesg(data: bytes) -> Iterator[KernelLine]:
    """Kernel lines of ``dmesg --raw``."""
    for raw in data.splitlines():
        found = _DMESG_LINE.match(raw)
        if found is not None and int(found[1]) >> 3 == 0:
            yield KernelLine(float(found[2]), _clean(found[3]))


def _clean(raw: bytes) -> str:
    text = raw[:_MAX_TEXT].decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _read_device(since: float, kmsg: Path) -> KernelRead:
    descriptor = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    lines: list[KernelLine] = []
    lost = False
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD_SIZE)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten under our eyes; the next read goes on at the oldest line
                lost = True
                continue
            if not record:
                break
            line = parse_record(record)
            if line is not None and line.mono >= since:
                lines.append(line)
    finally:
        os.close(descriptor)
    return KernelRead(tuple(lines[-MAX_LINES:]), lost=lost)


def _read_dmesg(since: float) -> KernelRead:
    tool = shutil.which("dmesg")
    if tool is None:
        return KernelRead(gaps=(_gap("neither /dev/kmsg nor dmesg is here"),))
    try:
        done = subprocess.run([tool, "--raw"], capture_output=True, timeout=_DMESG_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return KernelRead(gaps=(_gap("dmesg did not answer"),))
    if done.returncode != 0:
        return KernelRead(gaps=(_gap(_restriction() or "dmesg was refused"),))
    lines = [line for line in parse_dmesg(done.stdout) if line.mono >= since]
    return KernelRead(tuple(lines[-MAX_LINES:]))


def _not_permitted(problem: OSError) -> Gap:
    return _gap(_restriction() or f"/dev/kmsg may not be read ({problem.strerror})")


def _restriction() -> str | None:
    try:
        restricted = _RESTRICT.read_text().strip() == "1"
    except OSError:
        return None
    return "kernel.dmesg_restrict = 1 keeps the kernel log to root (CAP_SYSLOG)" if restricted else None


def _gap(why: str) -> Gap:
    return Gap(what="kernel lines", why=why, command="sudo dmesg --raw --kernel > kernel.txt")
