"""Opening and reading files whose names or bytes may be hostile: never blocks, never reads past a bound."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analyzers.errors import UserError

PRINTABLE_LIMIT = 200  # characters of a foreign name worth showing in one line


def plain(text: str, limit: int = PRINTABLE_LIMIT) -> str:
    """``text`` with control and other unprintable characters replaced, cut to ``limit`` characters."""
    shown = "".join(char if char.isprintable() else "?" for char in text[:limit])
    return shown + ("..." if len(text) > limit else "")


@contextmanager
def opened_regular(path: Path, where: str | None = None) -> Iterator[int]:
    """A read-only descriptor of a regular file. ``where`` is the name to show instead of ``path``.

    Raises UserError when it is missing, unreadable, a directory or anything else that is not a file.
    Without O_NONBLOCK a FIFO named by a hostile core would hang the reader.
    """
    where = where or plain(str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable name"
        raise UserError(
            f"cannot be opened ({reason.lower()})", where=where, remedy="check the path and its permissions"
        ) from error
    try:
        _demand_regular(os.fstat(descriptor).st_mode, where)
        _demand_kept(descriptor, where)
        yield descriptor
    finally:
        os.close(descriptor)


def _demand_regular(mode: int, where: str) -> None:
    if stat.S_ISDIR(mode):
        raise UserError("a directory, not a file", where=where, remedy="name the core file itself")
    if not stat.S_ISREG(mode):
        raise UserError("not a regular file", where=where, remedy="copy it to a file first")


def _demand_kept(descriptor: int, where: str) -> None:
    """Raises UserError for a file that no disk holds (/proc/kmsg, tracefs): its kernel makes the bytes up as
    they are read, which may take for ever and, of kmsg, takes them away from everybody else."""
    if os.fstat(descriptor).st_size == 0 and os.fstatvfs(descriptor).f_blocks == 0:
        raise UserError(
            "made by the kernel while it is read, so it may never end",
            where=where,
            remedy="copy what it says to a file first (of the kernel's log: dmesg > kernel.txt)",
        )


def pread(descriptor: int, size: int, offset: int) -> bytes:
    """Up to ``size`` bytes at ``offset``; shorter at the end, empty for offsets no file can have."""
    if size <= 0 or not 0 <= offset < 1 << 62:
        return b""
    parts: list[bytes] = []
    while size > 0:
        part = _pread_once(descriptor, size, offset)
        if not part:
            break
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)


def _pread_once(descriptor: int, size: int, offset: int) -> bytes:
    try:
        return os.pread(descriptor, size, offset)
    except OSError:  # a bad sector or a file cut while it is read: what is there so far still counts
        return b""
