"""A core somewhere else, and what is known of it by whom."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.capture.kept.captures import Capture
from collector.gather.deaths import SAME_DEATH_SECONDS

Identity = tuple[int, int, int, int, int, int]


def identity_of(found: os.stat_result) -> Identity:
    """What tells one file, in one state, from every other: device, inode, size, change, owner, names."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_uid, found.st_nlink)


SYSTEMD, APPORT, FILE, WATCH = "systemd-coredump", "apport", "file", "watch"


@dataclass(frozen=True)
class Found:
    """``path``: core or report, None where only the record is left. ``wall``: Unix seconds of the death, or
    of the file where nobody tells it; ``truncated``: whoever took it says so."""

    origin: str
    path: Path | None
    wall: float
    pid: int | None = None
    boot_id: str | None = None
    start_ticks: int | None = None
    signal: int | None = None
    exe: str | None = None
    unit: str | None = None
    truncated: bool = False
    identity: Identity | None = None  # the file as it was looked at: what stands at its path later may differ
    notes: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return str(self.path) if self.path is not None else f"{self.origin}'s record of PID {self.pid}"


def known_already(found: Found, there: Iterable[Capture]) -> Capture | None:
    """The capture of the same death: boot, PID and start time; where one side does not know the start, the
    moment of the death stands in for it. A file that was imported is known by itself."""
    return next((one for one in there if _same_file(found, one) or _same_death(found, one)), None)


def _same_file(found: Found, one: Capture) -> bool:
    told = one.part("imported")
    if found.path is None or told.get("path") != str(found.path):
        return False
    try:
        looked = found.path.stat()
    except OSError:
        return False
    return told.get("size") == looked.st_size and told.get("mtime_ns") == looked.st_mtime_ns


def _same_death(found: Found, one: Capture) -> bool:
    if found.pid is None or found.pid not in (one.pid, one.number("crash", "ns_pid")):
        return False
    boots = [bare(found.boot_id), bare(one.boot_id)]
    if all(boots) and boots[0] != boots[1]:
        return False
    if found.start_ticks and one.start_ticks:
        return found.start_ticks == one.start_ticks and all(boots)
    return abs(found.wall - one.wall) <= SAME_DEATH_SECONDS


def bare(boot_id: str | None) -> str:
    """The kernel writes a boot id with dashes, systemd without."""
    return (boot_id or "").replace("-", "").lower()


def merged(rows: Sequence[Found]) -> list[Found]:
    """Each death once, the oldest first: a record and its file tell of the same."""
    kept: list[Found] = []
    for row in sorted(rows, key=lambda row: (row.path is None, row.wall)):
        same = (
            each
            for each in kept
            if each.pid == row.pid is not None
            and bare(each.boot_id) == bare(row.boot_id)
            and abs(each.wall - row.wall) <= SAME_DEATH_SECONDS
        )
        if next(same, None) is None:
            kept.append(row)
    return sorted(kept, key=lambda row: row.wall)
