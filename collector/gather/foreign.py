"""Files that another user's process names: read as that process could have read them, and no further.

Who runs ``collect`` is often root, and what a process calls its settings file is its own choice. Without
these rules a bundle would carry /etc/shadow on the word of anybody's command line, or a file of the host for
one of a container by way of a symbolic link.
"""

from __future__ import annotations

import io
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from collector.gather.tools import open_quietly
from collector.sources.procfs import PROC, GoneError, Process

MAX_STEPS = 256  # of a path, links included: the kernel itself follows 40 links
FILESYSTEM = (
    4  # of the four numbers in a Uid or Gid line of /proc/PID/status: the one that files are checked by
)


@dataclass(frozen=True)
class Owner:
    """Whose rights count. ``uid`` None: nobody's, so only what everybody may read."""

    uid: int | None = None
    groups: frozenset[int] = field(default_factory=frozenset)

    def may_read(self, found: os.stat_result) -> bool:
        """By the file's mode alone, as the kernel asks it: an owner whom it denies is denied."""
        if self.uid == 0:
            return True
        if self.uid is not None and found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IRUSR)
        if found.st_gid in self.groups:
            return bool(found.st_mode & stat.S_IRGRP)
        return bool(found.st_mode & stat.S_IROTH)


ANYBODY = Owner()
ADMINISTRATOR = Owner(0)  # a unit's file is written by one


def owner_of(pid: int) -> Owner:
    """The rights of a living process; nobody's when it is gone."""
    try:
        with Process(pid) as process:
            text = process.read("status").decode("ascii", "replace")
    except (GoneError, PermissionError):
        return ANYBODY
    rows = {name: value.split() for name, _, value in (line.partition(":") for line in text.splitlines())}
    uid, gid = rows.get("Uid", []), rows.get("Gid", [])
    if len(uid) < FILESYSTEM or len(gid) < FILESYSTEM:
        return ANYBODY
    groups = [*rows.get("Groups", []), gid[FILESYSTEM - 1]]
    return Owner(int(uid[FILESYSTEM - 1]), frozenset(int(one) for one in groups if one.isdigit()))


def folders_of(pid: int) -> tuple[Path, Path]:
    """(root, working folder) as this process reaches those of ``pid``."""
    return PROC / str(pid) / "root", PROC / str(pid) / "cwd"


def read_named(path: str, limit: int, who: Owner, root: Path, cwd: Path | None = None) -> bytes | None:
    """Up to ``limit`` bytes of a regular file that ``who`` may read; None when it is none, or may not be.

    An absolute path's links are followed inside ``root`` only, as the process itself would; a relative one
    begins in ``cwd``.
    """
    place = _resolved(path, root) if path.startswith("/") else (cwd / path if cwd is not None else None)
    if place is None:
        return None
    opened = open_quietly(place, os.O_NOFOLLOW)
    if opened is None:
        return None
    with io.BufferedReader(opened) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or not who.may_read(found):
            return None
        try:
            return file.read(limit) if found.st_size else b""
        except OSError:
            return None


def _resolved(path: str, root: Path) -> Path | None:
    """The file itself below ``root``; None for a loop of links."""
    left = path.split("/")[::-1]
    done: list[str] = []
    for _ in range(MAX_STEPS):
        if not left:
            return root.joinpath(*done)
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        try:
            link = os.readlink(root.joinpath(*done, part))
        except (OSError, ValueError):  # no link, or nothing: opening it will tell
            done.append(part)
            continue
        done = [] if link.startswith("/") else done
        left += link.split("/")[::-1]
    return None
