"""Finds the core of a dead process where the machine's present setting put it. Changes no setting.

Source of the pattern's rules: core(5).
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from glob import escape, iglob
from pathlib import Path

PROC_KERNEL = Path("/proc/sys/kernel")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SYSTEMD_STORE = Path("/var/lib/systemd/coredump")
ET_CORE = 4
# A store or a shared crash folder may be large; the newest match is wanted, not all of them.
CANDIDATES_LIMIT = 10_000
_FIELD = re.compile(r"%(.?)", re.DOTALL)


@dataclass(frozen=True)
class CoreSettings:
    """The machine's three settings that decide where a core goes, and the process's own limit
    (bytes; -1 unlimited, None not known)."""

    pattern: str
    uses_pid: bool = False
    limit: int | None = None
    boot_id: str = "*"
    store: Path = SYSTEMD_STORE

    @classmethod
    def of_machine(cls, limit: int | None = None) -> CoreSettings:
        """As they stand now. Unreadable files count as the kernel's defaults."""
        return cls(
            pattern=_text(PROC_KERNEL / "core_pattern", "core"),
            uses_pid=_text(PROC_KERNEL / "core_uses_pid", "0").strip() == "1",
            limit=limit,
            boot_id=_text(BOOT_ID, "*").strip().replace("-", ""),
        )


@dataclass(frozen=True)
class CoreSearch:
    """A core's path, or None and why there is none."""

    path: Path | None
    reason: str


def locate_core(
    pid: int, cwd: Path, *, settings: CoreSettings | None = None, since: float = 0.0
) -> CoreSearch:
    """The core of process ``pid``, whose working directory was ``cwd``.

    ``since`` (Unix seconds) leaves out older files of a reused name. Files may be compressed in
    systemd's store; a plain file must be an ELF core. Never raises for a missing or unreadable file.
    """
    settings = settings or CoreSettings.of_machine()
    pattern = settings.pattern.rstrip("\n")
    if settings.limit == 0:
        return CoreSearch(None, "the process's core limit is 0; raise it with ulimit -c unlimited")
    if pattern.startswith("|"):
        return _passed_on(pid, cwd, since) or _piped(pid, pattern, settings, since)
    if pattern.startswith("@"):
        return CoreSearch(None, f"cores go to the socket {pattern.lstrip('@')}; its server has it")
    if not pattern and not settings.uses_pid:
        return CoreSearch(None, "kernel.core_pattern is empty: this machine writes no cores")
    wanted = cwd / file_glob(pattern, pid, settings.uses_pid)
    found = _newest((path for path in _matches(wanted) if _is_core(path)), since)
    return CoreSearch(found, f"kernel.core_pattern is {pattern!r}" if found else _no_file(wanted))


def file_glob(pattern: str, pid: int, uses_pid: bool) -> str:
    """The glob a path pattern stands for: PID fields filled in, ``%%`` a percent sign, others a star."""
    pid_named = False

    def expand(found: re.Match[str]) -> str:
        nonlocal pid_named
        field = found.group(1)
        pid_named = pid_named or field == "p"
        fixed = {"%": "%", "p": str(pid), "": ""}  # a lone percent sign at the end is dropped
        return fixed.get(field, "*")

    parts = re.split(r"(%.|%$)", pattern)
    text = "".join(_FIELD.sub(expand, part) if part.startswith("%") else escape(part) for part in parts)
    return text if pid_named or not uses_pid else f"{text}.{pid}"


def _passed_on(pid: int, cwd: Path, since: float) -> CoreSearch | None:
    """What a handler that does not keep the core itself leaves where the kernel would have."""
    names = [cwd / name for name in ("core", f"core.{pid}")]
    found = _newest((path for path in names if _is_core(path)), since)
    return CoreSearch(found, "the handler passed it on") if found else None


def _piped(pid: int, pattern: str, settings: CoreSettings, since: float) -> CoreSearch:
    if "systemd-coredump" not in pattern.split(" ")[0]:
        return CoreSearch(None, f"cores are piped to {pattern[1:].split(' ')[0]}; look where it keeps them")
    wanted = settings.store / f"core.*.{settings.boot_id}.{pid}.*"
    found = _newest(_matches(wanted), since)
    reason = "systemd-coredump keeps it" if found else f"systemd-coredump has none for PID {pid} (yet)"
    return CoreSearch(found, reason)


def _no_file(wanted: Path) -> str:
    return f"no core at {wanted}; the folder must exist and be writable for the server's user"


def _matches(wanted: Path) -> list[Path]:
    found = iglob(str(wanted))
    return [Path(name) for _, name in zip(range(CANDIDATES_LIMIT), found, strict=False)]


def _newest(paths: Iterable[Path], since: float) -> Path | None:
    dated = [(status.st_mtime, path) for path in paths if (status := _regular(path)) is not None]
    recent = [pair for pair in dated if pair[0] >= since]
    return max(recent)[1] if recent else None


def _regular(path: Path) -> os.stat_result | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _is_core(path: Path) -> bool:
    if _regular(path) is None:
        return False
    try:
        with path.open("rb") as file:
            head = file.read(18)
    except OSError:
        return False
    return len(head) == 18 and head[:4] == b"\x7fELF" and struct.unpack_from("<H", head, 16)[0] == ET_CORE


def _text(path: Path, default: str) -> str:
    try:
        return path.read_text()
    except OSError:
        return default
