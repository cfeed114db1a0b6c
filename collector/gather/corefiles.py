"""Where hosts keep cores: systemd-coredump's store, the places of a plain core_pattern, apport's reports."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analyzers.core.elf import MAGIC
from analyzers.core.packed import FORMATS
from analyzers.triage.readers.store import named_in_store

STORE = Path("/var/lib/systemd/coredump")
APPORT = Path("/var/crash")
PATTERN = Path("/proc/sys/kernel/core_pattern")
USES_PID = Path("/proc/sys/kernel/core_uses_pid")
NEWEST = 64  # files of one place that are looked at, the newest first
_EXPAND = re.compile(r"%(.)")
_MAX_APPORT = 1 << 30  # bytes of a report; a core of gigabytes is compressed in it
_APPORT_LINE = 1 << 24
APPORT_KEEPS = (
    "ProblemType",
    "ExecutablePath",
    "ExecutableTimestamp",
    "Signal",
    "SignalName",
    "Date",
    "Uname",
    "DistroRelease",
    "Package",
    "ProcCmdline",
    "Architecture",
)


@dataclass(frozen=True)
class Kept:
    """A file that may be a core. ``wall``: Unix seconds when it was written; ``pid`` by its name."""

    path: Path
    wall: float
    pid: int | None = None
    comm: str | None = None
    boot_id: str | None = None


def in_store(store: Path = STORE) -> list[Kept]:
    """systemd-coredump's files by their names, the newest first; empty where they may not be listed."""
    found = []
    for path, _ in _files(store, "core."):
        named = named_in_store(path.name)
        if named is not None and named.wall is not None:
            found.append(Kept(path, named.wall, named.pid, named.name, named.boot_id))
    return sorted(found, key=lambda kept: kept.wall, reverse=True)[:NEWEST]


def plain_places(folders: list[Path], pattern: Path = PATTERN) -> Iterator[Kept]:
    """Cores of a core_pattern that is a path: in its own folder, or in ``folders`` when it is relative."""
    try:
        text = pattern.read_text().strip()
    except OSError:
        return
    if not text or text[0] in "|@":
        return
    places = (
        [Path(text).parent] if text.startswith("/") else [folder / Path(text).parent for folder in folders]
    )
    shape = re.compile(_shape(Path(text).name) + r"(?:\.\d+)?")
    for place in dict.fromkeys(places):
        for path, found in _files(place, ""):
            if shape.fullmatch(path.name) and _begins_as_core(path):
                yield Kept(path, found.st_mtime)


def _shape(name: str) -> str:
    """core.%p as a pattern: whatever an expansion may be."""
    parts = _EXPAND.split(name)
    return "".join(".*" if at % 2 and part != "%" else re.escape(part) for at, part in enumerate(parts))


def _files(folder: Path, prefix: str) -> list[tuple[Path, os.stat_result]]:
    """Regular files of one folder, the newest first; links are not followed."""
    try:
        names = [entry for entry in os.scandir(folder) if entry.name.startswith(prefix)]
    except OSError:
        return []
    found = []
    for entry in names:
        try:
            looked = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(looked.st_mode):
            found.append((Path(entry.path), looked))
    return sorted(found, key=lambda pair: pair[1].st_mtime, reverse=True)[:NEWEST]


def _begins_as_core(path: Path) -> bool:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            head = file.read(18)
    except OSError:
        return False
    return head.startswith(tuple(FORMATS)) or (head.startswith(MAGIC) and head[16:18] == b"\x04\x00")


def apport_reports(folder: Path = APPORT) -> list[Kept]:
    """apport's reports, the newest first."""
    return [Kept(path, found.st_mtime) for path, found in _files(folder, "") if path.suffix == ".crash"]


def apport_fields(path: Path) -> dict[str, str]:
    """The short fields of a report; the core and the process's maps are not among them."""
    found: dict[str, str] = {}
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            for _ in range(2000):
                line = file.readline(_APPORT_LINE)
                if not line:
                    break
                name, colon, value = line.decode("utf-8", "replace").rstrip("\n").partition(": ")
                if colon and name in APPORT_KEEPS:
                    found[name] = value[:1000]
    except OSError:
        return {}
    return found


def apport_core(path: Path, target: Path) -> bool:
    """Write the core that a report carries (base64 of one gzip stream) to ``target``; False for none."""
    unpacker = zlib.decompressobj(wbits=31)
    written, inside = 0, False
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(out, "wb") as core:
            while (line := file.readline(_APPORT_LINE)) and written < _MAX_APPORT:
                if not line.startswith(b" "):
                    if inside:
                        break
                    inside = line.startswith(b"CoreDump: base64")
                elif inside:
                    try:
                        data = unpacker.decompress(base64.b64decode(line.strip(), validate=True))
                    except (zlib.error, binascii.Error, EOFError):
                        break
                    written += core.write(data)
    return written > 0
