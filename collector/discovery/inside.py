"""Files as another process sees them: below its root, and never anything outside of it."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from contextlib import suppress

from collector.sources.procfs import PROC

_OPENAT2 = 437  # one number on every architecture since it is new: include/uapi/asm-generic/unistd.h
_IN_ROOT, _NO_MAGIC = 0x10, 0x02  # RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS: include/uapi/linux/openat2.h
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_ENOSYS, _EPERM = 38, 1
MAX_PATH = 4096  # PATH_MAX


def absolute(pid: int, path: str) -> str:
    """``path`` from the process's own root; a relative one counts from its working folder."""
    if path.startswith("/"):
        return path
    with suppress(OSError):
        root, here = os.readlink(PROC / str(pid) / "root"), os.readlink(PROC / str(pid) / "cwd")
        if root != "/" and (here + "/").startswith(root + "/"):
            here = here[len(root) :] or "/"
        return os.path.normpath(f"{here}/{path}")
    return path


def read_inside(pid: int, path: str, limit: int) -> tuple[bytes, bool]:
    """(up to ``limit`` bytes, whether there are more) of a regular file that the process would open so.

    Links are followed only within the process's root: one that points out of a container leads nowhere.
    Raises OSError.
    """
    wanted = absolute(pid, path)
    if not wanted.startswith("/") or "\0" in wanted or len(wanted) > MAX_PATH:
        raise OSError(22, "not a path")
    root = os.open(PROC / str(pid) / "root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = _open(root, wanted)
    finally:
        os.close(root)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(22, "not a regular file")
        data = file.read(limit + 1)
    return data[:limit], len(data) > limit


def _open(root: int, path: str) -> int:
    how = struct.pack("=QQQ", _FLAGS, 0, _IN_ROOT | _NO_MAGIC)
    call = ctypes.CDLL(None, use_errno=True).syscall
    descriptor: int = call(_OPENAT2, root, os.fsencode(path), how, len(how))
    if descriptor >= 0:
        return descriptor
    problem = ctypes.get_errno()
    if problem in (_ENOSYS, _EPERM):  # an older kernel, or a filter that knows only older calls
        return _walk(root, path)
    raise OSError(problem, os.strerror(problem))


def _walk(root: int, path: str) -> int:
    """Part by part and without following a link at all."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise OSError(22, "not a plain path")
    at = os.dup(root)
    for part in parts[:-1]:
        try:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)
        at = below
    try:
        return os.open(parts[-1], _FLAGS | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)
