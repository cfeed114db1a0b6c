"""State of the files a reload opens. A reload that fails aborts the server (D7): look before any wake."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from analyzers.contracts.facts import ModelFileFact
from collector.sources.procfs import GoneError, Process

_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_MAX_PARTS = 1000
_MAGIC = b"GGUF"


def look_at_file(path: str, *, pid: int | None = None) -> ModelFileFact:
    """One file now: ``present``, ``missing``, ``unreadable`` or, with another beginning, ``replaced``.

    With ``pid`` a path is taken as that process sees it (root and working folder). An absolute link inside a
    container is then not followed there and counts as missing: the careful side. ``mtime`` is Unix seconds.
    """
    real = _as_seen_by(path, pid)
    try:
        found = real.stat()
    except PermissionError:
        return ModelFileFact(path=path, state="unreadable")
    except (OSError, ValueError):
        return ModelFileFact(path=path, state="missing")
    state = "present" if stat.S_ISREG(found.st_mode) and _readable(real, found, pid) else "unreadable"
    if state == "present" and _other_kind(real):
        state = "replaced"
    return ModelFileFact(path=path, state=state, size=found.st_size, mtime=found.st_mtime)


def compare(seen: ModelFileFact, now: ModelFileFact) -> ModelFileFact:
    """``now`` judged against an earlier look: ``cut`` when smaller, ``replaced`` when other."""
    if now.state != "present" or (now.size, now.mtime) == (seen.size, seen.mtime):
        return now
    smaller = now.size is not None and seen.size is not None and now.size < seen.size
    return ModelFileFact(now.path, "cut" if smaller else "replaced", now.size, now.mtime)


def look_again(seen: Iterable[ModelFileFact], *, pid: int | None = None) -> list[ModelFileFact]:
    """Every file of an earlier look, looked at and compared."""
    return [compare(old, look_at_file(old.path, pid=pid)) for old in seen if old.path]


def look_at_model(paths: Sequence[str], *, pid: int | None = None) -> list[ModelFileFact]:
    """All files of a model as they are now, the parts of a split one included."""
    return [look_at_file(part, pid=pid) for path in paths for part in parts(path)]


def parts(path: str) -> list[str]:
    """The part files that a split model's name stands for; the path itself when it is not split."""
    found = _PART.search(path)
    if found is None or not 0 < int(found[2]) <= _MAX_PARTS:
        return [path]
    return [f"{path[: found.start()]}-{n:05d}-of-{found[2]}.gguf" for n in range(1, int(found[2]) + 1)]


def _as_seen_by(path: str, pid: int | None) -> Path:
    if pid is None:
        return Path(path)
    base = "root" if path.startswith("/") else "cwd"
    return Path(f"/proc/{pid}/{base}") / path.lstrip("/")


def _readable(real: Path, found: os.stat_result, pid: int | None) -> bool:
    if pid is None:
        return os.access(real, os.R_OK)
    try:
        with Process(pid) as process:
            users, groups = _ids(process.read("status"))
    except (GoneError, PermissionError):
        return os.access(real, os.R_OK)
    return 0 in users or _mode_allows(found, users, groups)


def _mode_allows(found: os.stat_result, users: set[int], groups: set[int]) -> bool:
    if found.st_uid in users:
        return bool(found.st_mode & stat.S_IRUSR)
    if found.st_gid in groups:
        return bool(found.st_mode & stat.S_IRGRP)
    return bool(found.st_mode & stat.S_IROTH)


def _ids(status: bytes) -> tuple[set[int], set[int]]:
    rows = {name: row.split() for name, _, row in (line.partition(b":") for line in status.splitlines())}
    users = {int(word) for word in rows.get(b"Uid", [])[3:4]}  # the filesystem uid, last of four
    groups = {int(word) for word in (*rows.get(b"Gid", [])[3:4], *rows.get(b"Groups", []))}
    return users, groups


def _other_kind(real: Path) -> bool:
    try:
        with real.open("rb") as file:
            return file.read(len(_MAGIC)) != _MAGIC
    except OSError:
        return False  # the server may read what this process may not
