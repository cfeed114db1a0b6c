"""How long would a wake take, and which clients would not wait for it?"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.facts import ModelFileFact
from collector.check.model import Finding, Level, size_text
from collector.gather.tools import open_quietly
from collector.sources.modelfile import look_at_file
from collector.sources.procfs import PROC

WAKE = "wake"
TAIL, HEAD = 1 << 20, 1 << 16  # bytes of a log that are looked at: the last wakes, the first load
# The end of a load in b9294 and later; none of the lines says that a wake is over.
_STAMP = r"(\d{1,9})\.(\d\d)\.(\d{3})\.(\d{3}) "
_LINE = re.compile(rb"^(?:.{0,200}? )?" + _STAMP.encode() + rb"\w (.{0,200})")
_WAKES = re.compile(rb"handle_sleep\w*: .*exiting sleeping state")
_LOADED = re.compile(rb"load_model: initializing,? |model loaded")
_LOADING = re.compile(rb"load_model: loading model ")
LONGEST = 86400.0  # seconds: a stamp that says more belongs to another process
# Bytes a second that a model is read at, the careful end of each kind of disk.
RATES = {"NVMe": 1 << 30, "SSD": 400 << 20, "rotating": 100 << 20}
SHORT = 10.0  # seconds; the default patience of many HTTP clients and health checks is 5 to 10


@dataclass(frozen=True)
class WakeTime:
    """``seconds`` None: not known. ``how``: log (its own wakes) | load (its own start) | size (estimated) |
    unknown; ``words`` says how in a sentence."""

    seconds: float | None
    how: str
    words: str


def wake_time(pid: int, log: str | None, files: Sequence[ModelFileFact], size: int) -> WakeTime:
    """By its log where that is a file, else by the model's size and its disk."""
    data = log_of(pid, log)
    wakes, load = durations(data)
    if wakes:
        longest = max(wakes)
        return WakeTime(longest, "log", f"the longest of the wakes in its log ({len(wakes)})")
    if load is not None:
        return WakeTime(load, "load", "its load at the start, by its log")
    if not size:
        return WakeTime(None, "unknown", "no wake in a log that could be read, and no model file seen")
    kind = _disk(files, pid)
    if kind is None:
        return WakeTime(None, "unknown", f"{size_text(size)} to read, from a disk that is not known")
    seconds = size / RATES[kind]
    rate = f"{size_text(RATES[kind])} a second"
    return WakeTime(
        seconds, "size", f"estimated: {size_text(size)} at {rate} ({kind} disk); less from memory"
    )


def wake_rules(time: WakeTime, sleeps: bool | None) -> list[Finding]:
    """Nothing about a server that never sleeps."""
    if sleeps is False:
        return []
    change = "give clients and proxies a longer time-out than that (nginx: proxy_read_timeout), and one retry"
    if time.seconds is None:
        what = "how long a wake takes is not known"
        why = f"{time.words}; a client's own time-out cannot be seen from here"
        return [Finding(WAKE, WAKE, Level.NOTE, what, why, change)]
    shown = f"{time.seconds:.3g}" if time.seconds >= 0.1 else "0.1"
    what = f"a client that waits less than about {shown} s gives up while it wakes"
    why = f"{time.words}; a client without any time-out waits for ever if its request is stranded (D3)"
    level = Level.RISK if time.seconds > SHORT else Level.NOTE
    return [Finding(WAKE, WAKE, level, what, why, change, f"{time.seconds:.3g} s")]


def durations(data: bytes) -> tuple[list[float], float | None]:
    """(seconds of each wake, seconds of the load at the start) by the log's own stamps."""
    wakes: list[float] = []
    first, since, loading = None, None, None
    for line in data.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        now, text = _seconds(found), found[5]
        if _WAKES.search(text):
            since = now
        elif _LOADING.search(text) and since is None and first is None:
            loading = now
        elif _LOADED.search(text):
            if since is not None and 0 <= now - since < LONGEST:
                wakes.append(now - since)
            elif loading is not None and 0 <= now - loading < LONGEST:
                first = now - loading
            since = loading = None
    return wakes, first


def _seconds(found: re.Match[bytes]) -> float:
    minutes, seconds, milli, micro = (int(found[number]) for number in range(1, 5))
    return minutes * 60 + seconds + milli / 1e3 + micro / 1e6


def log_of(pid: int, log: str | None) -> bytes:
    """Beginning and end of what its standard error goes to, else of its log file; empty for no file."""
    for path in (PROC / str(pid) / "fd/2", PROC / str(pid) / "fd/1", _named(pid, log)):
        data = _ends(path) if path is not None else b""
        if data:
            return data
    return b""


def _named(pid: int, log: str | None) -> Path | None:
    if not log or not log.startswith("/"):
        return None
    # As the server's own rights allow: who checks is often root, and the name is the server's choice.
    if look_at_file(log, pid=pid).state not in ("present", "replaced"):
        return None
    return PROC / str(pid) / "root" / log.lstrip("/")


def _ends(path: Path) -> bytes:
    opened = open_quietly(path)
    if opened is None:
        return b""
    with opened as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            return b""
        with suppress(OSError):
            head = os.pread(file.fileno(), HEAD, 0)
            start = max(len(head), found.st_size - TAIL)
            return head + b"\n" + os.pread(file.fileno(), TAIL, start)
    return b""


def _disk(files: Sequence[ModelFileFact], pid: int) -> str | None:
    """NVMe | SSD | rotating, by the block device that the largest file is on."""
    largest = max((one for one in files if one.size), key=lambda one: one.size or 0, default=None)
    if largest is None or not largest.path:
        return None
    with suppress(OSError, ValueError):
        base = "root" if largest.path.startswith("/") else "cwd"
        device = os.stat(PROC / str(pid) / base / largest.path.lstrip("/")).st_dev
        block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
        holder = block if (block / "queue").is_dir() else block.parent
        if holder.name.startswith("nvme"):
            return "NVMe"
        return "rotating" if (holder / "queue/rotational").read_text().strip() == "1" else "SSD"
    return None
