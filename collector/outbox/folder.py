"""The outbox's folder: private, free of links, held by one agent, damage set aside in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path

from analyzers.contracts.outbox import ATTACHMENTS, CORRUPT, DATABASE
from analyzers.errors import UserError

LOGS = ("-wal", "-shm")


def hold(folder: Path) -> int:
    """Make ``folder`` private, create what is missing, and hold it. Returns the descriptor that holds it.

    The lock is on the folder itself: it needs no space on a full disk and leaves nothing behind. Raises
    UserError when the folder is a link, somebody else's, or another agent holds it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        remedy = "name a folder of the agent's own user, no link"
        raise UserError(f"it cannot be used ({_why(error)})", where=str(folder), remedy=remedy) from error
    try:
        _own(descriptor, folder)
        _lock(descriptor, folder)
        _subfolder(descriptor, folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _own(descriptor: int, folder: Path) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise UserError(
            f"it belongs to user {found.st_uid}", where=str(folder), remedy="run as that user or name another"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.fchmod(descriptor, 0o700)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        remedy = "stop it first, or give this one a folder of its own"
        raise UserError("another agent uses this outbox", where=str(folder), remedy=remedy) from error


def _subfolder(descriptor: int, folder: Path) -> None:
    """The attachments' folder. A full disk is no reason not to start: it is tried again on use."""
    with contextlib.suppress(OSError):
        os.mkdir(ATTACHMENTS, 0o700, dir_fd=descriptor)
    try:
        found = os.stat(ATTACHMENTS, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise UserError(
            "it is no folder of the agent's own", where=str(folder / ATTACHMENTS), remedy="move it away"
        )


def make_database(folder: Path) -> Path:
    """The database's path, 0600, no link; an empty file where none was. Raises UserError, OSError."""
    path = folder / DATABASE
    for each in (path, *(path.with_name(path.name + end) for end in LOGS)):
        if os.path.lexists(each) and not _plain(each):
            raise UserError("it is no plain file of the agent's own", where=str(each), remedy="move it away")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        sync(folder)
    except FileExistsError:
        os.chmod(path, 0o600)
    return path


def _plain(path: Path) -> bool:
    found = os.lstat(path)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1


def set_aside(folder: Path) -> str:
    """Rename a damaged database, its logs and its attachments. Returns the new name of the database."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    tries = (f"{CORRUPT}-{stamp}" + (f"-{number}" if number else "") for number in range(1000))
    tag = next(one for one in tries if not (folder / f"{DATABASE}.{one}").exists())
    for name in (*(DATABASE + end for end in LOGS), ATTACHMENTS, DATABASE):
        if os.path.lexists(folder / name):
            os.rename(folder / name, folder / f"{name}.{tag}")
    (folder / ATTACHMENTS).mkdir(mode=0o700)
    sync(folder)
    return f"{DATABASE}.{tag}"


def aside(folder: Path) -> tuple[str, ...]:
    """Names of the damaged databases that lie there."""
    return tuple(sorted(path.name for path in folder.glob(f"{DATABASE}.{CORRUPT}-*")))


def sync(folder: Path) -> None:
    """Make names in ``folder`` durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
