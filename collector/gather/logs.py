"""The log a server writes to a file: by its open descriptors, its --log-file, or its unit's output."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from analyzers.catalogue.builds import build_number_of
from collector.gather.tools import open_quietly
from collector.sources.procfs import GoneError, Process

HEAD_BYTES, TAIL_BYTES = 1 << 20, 16 << 20  # the load and the last hours; the middle is cut with a mark
CUT = b"\n[llama-blackbox: %d bytes in the middle left out]\n"
BUILD_LINE = re.compile(rb"^.{0,120}?\bbuild(?:_info)?\b.{1,200}$", re.MULTILINE)
BUILD_WITHIN = 1 << 16  # bytes; a server names its build in its first lines


def open_log(pid: int) -> tuple[bytes | None, str]:
    """What the process's standard output or error has written, where that is a file; else what it is."""
    kinds = []
    try:
        with Process(pid) as process:
            for number in ("2", "1"):
                target = process.link(f"fd/{number}")
                kinds.append(target.partition(":")[0] if ":" in target else target)
                data = bounded(Path(f"/proc/{pid}/fd/{number}"))
                process.stat()  # it lives: what was read is its own, and no later process's of the same PID
                if data:
                    return data, target
    except GoneError:
        return None, "gone"
    except PermissionError:
        return None, "hidden"
    return None, kinds[0] if kinds else "unknown"


def bounded(path: Path) -> bytes | None:
    """Beginning and end of a regular file; None when it is none or may not be read."""
    opened = open_quietly(path)
    if opened is None:
        return None
    with io.BufferedReader(opened) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            return None
        # Of size 0 are files that the kernel makes up as they are read, some without an end.
        return _both_ends(file, found.st_size) if found.st_size else b""


def _both_ends(file: IO[bytes], size: int) -> bytes | None:
    """None when the disk, or the other end of the network, does not give it."""
    try:
        head = file.read(HEAD_BYTES)
        start = max(len(head), size - TAIL_BYTES)
        file.seek(start)
        left = start - len(head)
        return head + (CUT % left if left else b"") + file.read(TAIL_BYTES)
    except OSError:
        return None


def build_in(text: bytes) -> int | None:
    """The build number a server's first lines name. A prompt could forge one, but not before the first."""
    for line in _lines(text[:BUILD_WITHIN]):
        number = build_number_of(line)
        if number is not None:
            return number
    return None


def _lines(text: bytes) -> Iterator[str]:
    for found in BUILD_LINE.finditer(text):
        yield found.group().decode("utf-8", "replace")
