"""The captures in a store, each by its manifest."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from analyzers.errors import UserError
from collector.capture.crash.store import MANIFEST, PARTIAL
from collector.capture.crash.writing import CORE, FULL_CORE

NEWEST = "newest"
_MOST_MANIFEST = 8 << 20
_MOST_NUMBER = (1 << 63) - 1  # what a kernel counts; JSON knows no bound
_MOST_SECONDS = float(1 << 33)  # the year 2242; beyond it a time cannot be told everywhere
_MOST_CGROUP = 1 << 16
_UNIT = re.compile(r"/([^/\n]{1,250}\.service)(?=/|$)", re.MULTILINE)
_MOST = 10_000  # folders of a store that are looked at; the crash path stops at 500


@dataclass(frozen=True)
class Capture:
    """One folder. ``told``: its manifest, empty where it cannot be read."""

    path: Path
    told: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.path.name

    def part(self, name: str) -> Mapping[str, Any]:
        found = self.told.get(name)
        return found if isinstance(found, dict) else {}

    def number(self, part: str, name: str) -> int | None:
        value = self.part(part).get(name)
        usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_NUMBER
        return value if usable else None

    @property
    def pid(self) -> int | None:
        named = self.id.split("-")
        number = self.number("process", "pid")
        return number if number is not None else _int(named[1] if len(named) > 1 else "")

    @property
    def uid(self) -> int | None:
        """The user of the process, by the manifest, else by the folder's name; None where nobody tells."""
        marked = re.search(r"-u(\d{1,10})(?:-|$)", self.id)
        number = self.number("crash", "uid")
        return number if number is not None else int(marked[1]) if marked else None

    @property
    def unit(self) -> str:
        """The systemd unit, by its control group; empty where there is none."""
        told = self.told.get("unit")
        if isinstance(told, str) and told:
            return told
        try:
            with open(
                os.open(self.path / "cgroup", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb"
            ) as file:
                named = _UNIT.findall(file.read(_MOST_CGROUP).decode("utf-8", "replace"))
        except OSError:
            return ""
        return str(named[-1]) if named else ""

    @property
    def boot_id(self) -> str | None:
        value = self.part("process").get("boot_id")
        return value if isinstance(value, str) and value else None

    @property
    def start_ticks(self) -> int | None:
        return self.number("process", "start_ticks")

    @property
    def start_seconds(self) -> float | None:
        """Start in seconds since boot."""
        ticks, rate = self.start_ticks, self.number("process", "ticks_per_second") or 100
        return ticks / rate if ticks else None

    @property
    def wall(self) -> float:
        """Unix seconds of the death, by the manifest, else by the folder's name."""
        for value in (self.number("crash", "time"), self.part("clocks").get("realtime")):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if 0 < value < _MOST_SECONDS:
                return float(value)
        return wall_of(self.id) or self.path.stat().st_mtime

    @property
    def signal(self) -> int | None:
        return self.number("crash", "signal")

    @property
    def exe(self) -> str:
        found = self.part("process").get("exe")
        path = found.get("path") if isinstance(found, dict) else None
        return str(path or self.part("crash").get("program") or "")

    @property
    def origin(self) -> str:
        """Who made it: the handler's mode, or what it was imported from."""
        return str(self.part("imported").get("from") or self.told.get("mode") or "?")

    @property
    def refused(self) -> str | None:
        """Why there is no capture but a trace."""
        why = self.part("adopted").get("why")
        return str(why) if why and self.core is None else None

    @property
    def core(self) -> Path | None:
        """The minimal core, else the full one."""
        return next((path for name in (CORE, FULL_CORE) if (path := self.path / name).is_file()), None)

    @property
    def full(self) -> Path | None:
        path = self.path / FULL_CORE
        return path if path.is_file() else None

    @property
    def copied_exe(self) -> Path | None:
        """The program, where its file was gone when the process died."""
        path = self.path / "exe"
        return path if path.is_file() else None

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(each.stat(follow_symlinks=False).st_blocks * 512 for each in os.scandir(self.path))


def _int(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 11 else None


def wall_of(name: str) -> float | None:
    """Unix seconds in a folder's name."""
    try:
        at = datetime.strptime(name.partition("-")[0], "%Y%m%dT%H%M%SZ")
    except ValueError:
        return None
    return at.replace(tzinfo=timezone.utc).timestamp()


def entries(store: Path) -> list[Path]:
    """Folders of the store, finished or not; [] when there is none. Raises UserError: it may not be read."""
    try:
        found = [Path(each.path) for each in os.scandir(store) if each.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise UserError(
            (problem.strerror or "error").lower(), where=str(store), remedy="run it with sudo"
        ) from None
    return sorted(found)[:_MOST]


def captures(store: Path) -> list[Capture]:
    """Finished ones, the oldest first."""
    found = [Capture(path, manifest(path)) for path in entries(store) if not path.name.startswith(".")]
    return sorted(found, key=lambda capture: (capture.wall, capture.id))


def partials(store: Path) -> Iterator[Path]:
    return (path for path in entries(store) if path.name.startswith(PARTIAL))


def manifest(folder: Path) -> Mapping[str, Any]:
    """The manifest in ``folder``; empty when there is none or it cannot be read."""
    return read_json(folder / MANIFEST)


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object in a file of ours; empty for anything else."""
    found = read_any(path)
    return found if isinstance(found, dict) else {}


def read_any(path: Path) -> Any:
    """Whatever JSON stands in a file of ours; None when it cannot be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return json.loads(file.read(_MOST_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None


def find(store: Path, name: str) -> Capture:
    """The capture called ``name``: its id, the beginning of one, a PID, or ``newest``. Raises UserError."""
    there = captures(store)
    if name == NEWEST and there:
        return there[-1]
    exact = [one for one in there if one.id == name]
    fitting = exact or [one for one in there if name and (one.id.startswith(name) or str(one.pid) == name)]
    if len(fitting) == 1:
        return fitting[0]
    what = "no such capture" if not fitting else f"{len(fitting)} captures begin so"
    raise UserError(what, where=name[:80], remedy="see llama-blackbox capture list")
