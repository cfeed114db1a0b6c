"""What a process holds in memory, as the kernel counts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
KIB = 1024
# A server maps a few hundred objects; the file is read for one path in it.
MAPS_LIMIT = 8 << 20
# The allocator keeps what it was given back: with its defaults b9294, which frees the draft, held 33 MiB more
# than its twin while asleep, which looks like the defect. Large blocks mapped each on its own, one arena and
# early trimming make freed memory leave the process (2.3 MiB after 20 sleeps).
STEADY_MALLOC = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


@dataclass(frozen=True)
class Resident:
    """Bytes of /proc/PID/smaps_rollup: all resident pages, the anonymous ones, and the proportional share."""

    rss: int
    anonymous: int
    pss: int


def resident(pid: int, proc: Path = PROC) -> Resident | None:
    """None when the process is gone, or the kernel does not tell."""
    try:
        lines = (proc / str(pid) / "smaps_rollup").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    rows = (line.split() for line in lines)
    counted = {row[0]: int(row[1]) * KIB for row in rows if len(row) == 3 and row[1].isdigit()}
    try:
        return Resident(counted["Rss:"], counted["Anonymous:"], counted["Pss:"])
    except KeyError:
        return None


def maps(pid: int, file: Path, proc: Path = PROC) -> bool:
    """The process still has ``file`` mapped."""
    try:
        with (proc / str(pid) / "maps").open("rb") as listed:
            return str(file.resolve()).encode() in listed.read(MAPS_LIMIT)
    except OSError:
        return False
