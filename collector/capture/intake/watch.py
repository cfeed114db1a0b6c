"""Watches folders for plain core files and takes each once it is complete.

Complete: all that the core's program headers promise is there and nobody has it open for writing; a core
that stays shorter (RLIMIT_CORE, a full disk) is taken as cut once it has not changed for a while. Polling:
inotify is silent on overlay layers and network file systems, and a core takes seconds to write anyway.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.core.elf import MAGIC
from analyzers.core.notes import read_core
from analyzers.errors import UserError
from collector.capture.crash import notes
from collector.capture.intake.found import WATCH, Found, identity_of
from collector.capture.kept.slimming import note_block

POLL_SECONDS = 1.0
STILL_SECONDS = 10.0  # without a change: a core that is still written grows every few milliseconds
MOST_FILES = 4096  # entries of one folder that are looked at, in the order of the folder
_UID_AT = 16  # pr_uid in struct elf_prpsinfo
OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CORE = b"\x04\x00"


@dataclass
class _Seen:
    size: int
    mtime: int
    since: float
    done: bool = False


@dataclass
class Watch:
    """``ready`` gives the cores that are complete, each once; ``refused`` lines about files that are no
    core anybody may hand us. ``clock`` in seconds."""

    folders: Sequence[Path]
    clock: Callable[[], float] = time.monotonic
    still: float = STILL_SECONDS
    refused: list[str] = field(default_factory=list)
    _seen: dict[tuple[int, int], _Seen] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def ready(self) -> Iterator[Found]:
        """Raises UserError when a folder is gone."""
        present: set[tuple[int, int]] = set()
        for folder in self.folders:
            for path, found, descriptor in self._entries(folder):
                key = (found.st_dev, found.st_ino)
                present.add(key)
                if self._complete(descriptor, found, key):
                    self._seen[key].done = True
                    taken = self._checked(path, found, descriptor)
                    if taken is not None:
                        yield taken
        for key in set(self._seen) - present:
            del self._seen[key]

    def _entries(self, folder: Path) -> Iterator[tuple[Path, os.stat_result, int]]:
        """(path, what it is, descriptor) of each plain file; the descriptor is open until the next one."""
        try:
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as problem:
            raise UserError(
                (problem.strerror or "error").lower(), where=str(folder), remedy="make the folder, then again"
            ) from None
        try:
            with os.scandir(place) as rows:
                names = [entry.name for entry, _ in zip(rows, range(MOST_FILES), strict=False)]
            for name in names:
                yield from self._entry(place, folder / name)
        finally:
            os.close(place)

    def _entry(self, place: int, path: Path) -> Iterator[tuple[Path, os.stat_result, int]]:
        try:
            if not stat.S_ISREG(os.stat(path.name, dir_fd=place, follow_symlinks=False).st_mode):
                if str(path) not in self._told and path.name.startswith("core"):
                    self._told.add(str(path))
                    self.refused.append(f"{path}: a link or no plain file, left alone")
                return
            descriptor = os.open(path.name, OPEN_FLAGS, dir_fd=place)
        except OSError:
            return
        try:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode):
                yield path, found, descriptor
        finally:
            os.close(descriptor)

    def _complete(self, descriptor: int, found: os.stat_result, key: tuple[int, int]) -> bool:
        now = self.clock()
        seen = self._seen.get(key)
        if seen is None or (seen.size, seen.mtime) != (found.st_size, found.st_mtime_ns):
            seen = self._seen[key] = _Seen(found.st_size, found.st_mtime_ns, now)
        if seen.done:
            return False
        still = now - seen.since >= self.still
        whole = _promise(descriptor)
        if whole is None:  # no core, or not yet one
            seen.done = still
            return False
        return still or (found.st_size >= whole and not written_to(descriptor))

    def _checked(self, path: Path, found: os.stat_result, descriptor: int) -> Found | None:
        """A core tells whose it is; its file must be that user's own, or root's."""
        uid = core_uid(by_descriptor(descriptor))
        fault = None
        if found.st_nlink != 1:
            fault = "has several names"
        elif uid is None:
            fault = "does not say whose it is"
        elif found.st_uid not in (0, uid):
            fault = f"is of user {uid}'s process and belongs to user {found.st_uid}"
        if fault is not None:
            self.refused.append(f"{path}: {fault}, left alone")
            return None
        return Found(WATCH, path, found.st_mtime, identity=identity_of(found))


def by_descriptor(descriptor: int) -> Path:
    """An open file by a name that leads to no other."""
    return Path(f"/proc/self/fd/{descriptor}")


def _promise(descriptor: int) -> int | None:
    """Bytes that the headers promise; None when it does not begin as a core."""
    try:
        head = os.pread(descriptor, 18, 0)
        if not head.startswith(MAGIC) or head[16:18] != _CORE:
            return None
        core = read_core(by_descriptor(descriptor))
    except (OSError, UserError):
        return None
    cut = core.cut or not core.segments
    return core.file_size + 1 if cut else core.file_size


def written_to(descriptor: int) -> bool:
    """Whether somebody has it open for writing: then the kernel gives no read lease (fcntl(2))."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False  # no leases on this file system, or not our file: size and stillness decide
    return False


def core_uid(path: Path) -> int | None:
    """The user of the process, by the core's NT_PRPSINFO."""
    try:
        body = notes.body_of(notes.parse(note_block(path)), notes.PRPSINFO)
    except OSError:
        return None
    return int.from_bytes(body[_UID_AT : _UID_AT + 4], "little") if len(body) >= _UID_AT + 4 else None
