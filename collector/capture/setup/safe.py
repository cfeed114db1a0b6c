"""Places that nobody but root can change: what the kernel runs as root must lie in one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.crash.store import put

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def unsafe(path: Path) -> str | None:
    """Why others than root can change what stands at ``path``; None when they cannot.

    Every folder on the way is looked at, also behind links. What does not exist yet is judged by its parents.
    """
    try:
        real = Path(os.path.realpath(path))
    except OSError as problem:
        return f"{path}: {problem.strerror}"
    for each in (path.absolute(), real):
        for step in (each, *each.parents):
            fault = _fault(step)
            if fault is not None:
                return fault
    return None


def _fault(path: Path) -> str | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as problem:
        return f"{path}: {problem.strerror}"
    if found.st_uid != 0:
        return f"{path} belongs to user {found.st_uid}"
    if not stat.S_ISLNK(found.st_mode) and found.st_mode & _OTHERS:
        return f"{path} can be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def demand_safe(path: Path, what: str) -> None:
    """Raises UserError when others than root can change ``path`` or a folder above it."""
    fault = unsafe(path)
    if fault is not None:
        raise UserError(
            f"the kernel would run it as root, and {fault}",
            where=what,
            remedy="choose a place below folders that only root can write",
        )


def unsafe_below(folder: Path) -> str | None:
    """The first file or folder in ``folder`` that others than root can change."""
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            fault = _fault(Path(at) / name)
            if fault is not None:
                return fault
    return None


def sync_folder(folder: Path) -> None:
    """What was made, named or removed in it is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, text: str, mode: int = 0o644) -> None:
    """A file with ``text``, all or nothing, on the disk when this returns."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    data = text.encode(errors="surrogateescape")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        os.fchmod(descriptor, mode)
        put(descriptor, data)
    except OSError:
        os.unlink(new)
        raise
    finally:
        os.close(descriptor)
    os.rename(new, path)
    sync_folder(path.parent)
