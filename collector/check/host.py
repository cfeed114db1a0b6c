"""The host's settings, below a root that tests may put elsewhere: /etc, /usr/lib, /run, /proc/sys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from collector.gather.tools import read_text

MAX_FILE = 1 << 18  # bytes; these files have tens of lines
MAX_DROP_INS = 200
# systemd reads the first main file of these and the drop-ins of all, the earlier folder hiding equal names.
FOLDERS = ("etc", "run", "usr/local/lib", "usr/lib", "lib")
SYSCTL_FOLDERS = (
    "etc/sysctl.d",
    "run/sysctl.d",
    "usr/local/lib/sysctl.d",
    "usr/lib/sysctl.d",
    "lib/sysctl.d",
)
_ASSIGNED = re.compile(r"^\s*(#?)\s*([A-Za-z]+)\s*=\s*(.*?)\s*$")


@dataclass(frozen=True)
class Setting:
    """A value and the file that gives it; ``file`` None for a built-in default."""

    value: str
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.value or '(empty)'} ({self.file or 'the default'})"


@dataclass(frozen=True)
class Conf:
    """One systemd configuration: what is set, and the defaults that the vendor's file shows in comments."""

    name: str
    set: dict[str, Setting] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)

    def get(self, key: str, default: str) -> Setting:
        """The value in force; ``default`` is upstream's, used where the vendor's file names no other."""
        return self.set.get(key) or Setting(self.shown.get(key) or default)

    def drop_in(self, line: str) -> str:
        """Where a person sets ``line``, so that it wins over every file there is."""
        return f"{line} in /etc/systemd/{self.name}.d/99-cores.conf"


@dataclass(frozen=True)
class Host:
    """``root`` holds etc, run, usr and proc/sys. Nothing here raises for what is missing or unreadable."""

    root: Path = Path("/")

    def text(self, name: str) -> str | None:
        """A small file; None when it is missing or unreadable."""
        data = read_text(self.root / name.lstrip("/"), MAX_FILE)
        return data.decode("utf-8", "replace") if data is not None else None

    def sysctl(self, name: str) -> str | None:
        """``kernel/core_pattern`` as the kernel holds it, without the line's end."""
        text = self.text(f"proc/sys/{name}")
        return text.rstrip("\n") if text is not None else None

    def number(self, name: str) -> int | None:
        """A numeric kernel setting."""
        text = (self.sysctl(name) or "").strip()
        return int(text) if text.isdigit() and len(text) < 20 else None

    def exists(self, name: str) -> bool:
        return os.path.lexists(self.root / name.lstrip("/"))

    def sysctl_file(self, key: str) -> str | None:
        """The file that sets ``kernel.core_pattern`` at boot: of those that do, the last one read."""
        found = None
        for path in (*self._merged(SYSCTL_FOLDERS), "etc/sysctl.conf"):
            for line in (self.text(path) or "").splitlines():
                name, equals, _ = line.strip().lstrip("-").partition("=")
                if equals and name.strip().replace("/", ".") == key:
                    found = f"/{path}"
        return found

    def conf(self, name: str, section: str) -> Conf:
        """``coredump.conf`` with its drop-ins, in systemd's order (systemd's manual, coredump.conf(5))."""
        mains = [f"{folder}/systemd/{name}" for folder in FOLDERS]
        made = Conf(name)
        main = next((path for path in mains if self.text(path) is not None), None)
        for path in (*([main] if main else []), *self._merged(tuple(f"{path}.d" for path in mains))):
            self._apply(made, path, section)
        for path in mains:  # a main file that is not read still shows its makers' defaults
            for _, comment, key, value in _lines(self.text(path) or "", section):
                if comment and value:
                    made.shown.setdefault(key, value)
        return made

    def _apply(self, made: Conf, path: str, section: str) -> None:
        for _, comment, key, value in _lines(self.text(path) or "", section):
            if not comment and value:
                made.set[key] = Setting(value, f"/{path}")
            elif not comment:  # an empty assignment brings the default back
                made.set.pop(key, None)

    def _merged(self, folders: tuple[str, ...]) -> list[str]:
        """Drop-ins of all folders by file name; of two with one name the earlier folder's counts."""
        found: dict[str, str] = {}
        for folder in folders:
            for name in self._names(folder):
                found.setdefault(name, f"{folder}/{name}")
        return [found[name] for name in sorted(found)][:MAX_DROP_INS]

    def _names(self, folder: str) -> list[str]:
        try:
            return [name for name in os.listdir(self.root / folder) if name.endswith(".conf")]
        except OSError:
            return []


def _lines(text: str, section: str) -> Iterator[tuple[str, bool, str, str]]:
    """(section, is a comment, key, value) of the assignments in ``section``."""
    now = ""
    for line in text.splitlines():
        if line.startswith("[") and line.rstrip().endswith("]"):
            now = line.strip()[1:-1]
        found = _ASSIGNED.match(line)
        if found and now == section:
            yield now, bool(found[1]), found[2], found[3]


_SCALE = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}
_SIZE = re.compile(r"^(\d{1,18})(?:\.(\d{1,6}))?\s*([BKMGTPE]?)$")
_SPAN = re.compile(r"(\d{1,15})\s*([a-zµ]*)")
_SECONDS = {
    "": 1.0,
    "s": 1.0,
    "sec": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "us": 1e-6,
    "usec": 1e-6,
    "µs": 1e-6,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "w": 604800.0,
    "month": 2629800.0,
    "y": 31557600.0,
}


def size_of(text: str) -> int | None:
    """systemd's ``32G`` or ``infinity`` in bytes (a very large number); None when it is neither."""
    if text == "infinity":
        return 1 << 62
    found = _SIZE.match(text)
    if found is None:
        return None
    return int(float(f"{found[1]}.{found[2] or 0}") * _SCALE[found[3]])


def seconds_of(text: str) -> float | None:
    """systemd's ``1min 30s`` in seconds, ``infinity`` as such; None when it is no span."""
    text = text.strip()
    if text == "infinity":
        return float("inf")
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text).strip() or any(unit not in _SECONDS for _, unit in parts):
        return None
    return sum(int(number) * _SECONDS[unit] for number, unit in parts)
