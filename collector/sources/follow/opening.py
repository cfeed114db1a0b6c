"""Opening a log file that others write: regular files only, no step through a link that somebody planted.

A path of another mount namespace is walked from /proc/PID/root folder by folder, because an absolute link
inside it would otherwise be followed in our own root.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from collector.sources.procfs import PROC

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_DEPTH = 64  # folders of a path


class RefusedError(Exception):
    """The file is there and is not read; the text says why."""


@dataclass(frozen=True)
class Place:
    """Where a log file is: by ``path`` (in the root of process ``root_of``, when that is given), or what
    process ``fd_of`` has open as descriptor ``fd``."""

    path: Path | None = None
    root_of: int | None = None
    fd_of: int | None = None
    fd: int = 1

    @property
    def name(self) -> str:
        if self.path is None:
            return f"fd {self.fd} of process {self.fd_of}"
        return (
            str(self.path) if self.root_of is None else f"{self.path} in the root of process {self.root_of}"
        )

    def open(self) -> int:
        """A descriptor for reading. Raises RefusedError, OSError (also where it is not there)."""
        if self.path is None:
            return _regular(str(PROC / str(self.fd_of) / "fd" / str(self.fd)), None)
        if self.root_of is None:
            return _outside(self.path)
        return _beneath(self.root_of, self.path)

    def same(self, known: tuple[int, int]) -> bool:
        """Whether (device, inode) still stands there, by one look; False where only opening tells."""
        if self.path is None:
            where = str(PROC / str(self.fd_of) / "fd" / str(self.fd))
        elif self.root_of is None:
            where = os.fspath(self.path)
        else:
            return False
        try:
            state = os.stat(where, follow_symlinks=self.path is None)
        except OSError:
            return False
        return stat.S_ISREG(state.st_mode) and (state.st_dev, state.st_ino) == known

    def folder(self) -> Path | None:
        """Where rotated neighbours stand, None where they are not looked for."""
        return self.path.parent if self.path is not None and self.root_of is None else None


def output_places(pid: int) -> list[Place]:
    """The files to which a process's stdout and stderr go, each once; pipes and terminals are none."""
    found: dict[tuple[int, int], Place] = {}
    for number in (1, 2):
        try:
            state = os.stat(PROC / str(pid) / "fd" / str(number))
        except OSError:
            continue
        if stat.S_ISREG(state.st_mode):
            found.setdefault((state.st_dev, state.st_ino), Place(fd_of=pid, fd=number))
    return list(found.values())


def _regular(path: str, folder: int | None, flags: int = 0) -> int:
    """Open what is a regular file. Looked at before it is opened: opening a device can act on it."""
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=folder)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISLNK(mode):
            raise RefusedError("it is a symbolic link")
        if not stat.S_ISREG(mode):
            raise RefusedError("it is no regular file")
        return os.open(f"/proc/self/fd/{handle}", _FLAGS)
    finally:
        os.close(handle)


def _outside(path: Path) -> int:
    link = os.lstat(path)
    foreign = stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, os.geteuid())
    if foreign and os.stat(path).st_uid != link.st_uid:  # the kernel's rule for links in shared folders
        raise RefusedError("it is a symbolic link of another user than the file it names")
    return _regular(os.fspath(path), None)


def _beneath(pid: int, path: Path) -> int:
    parts = [part for part in path.parts if part not in ("/", ".")]
    if not parts or ".." in parts or len(parts) > MAX_DEPTH:
        raise RefusedError("its path is not usable")
    folder = os.open(PROC / str(pid) / "root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
            if not stat.S_ISDIR(os.fstat(folder).st_mode):
                raise RefusedError("a folder of its path is a symbolic link")
        return _regular(parts[-1], folder, os.O_NOFOLLOW)
    finally:
        os.close(folder)
