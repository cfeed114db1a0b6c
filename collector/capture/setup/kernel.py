"""The kernel's settings for cores, and which shapes of core_pattern it knows."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.crash.request import PATTERN_ROOM

PATTERN, LIMIT, DUMPABLE = "kernel.core_pattern", "kernel.core_pipe_limit", "fs.suid_dumpable"
NAMES = (PATTERN, LIMIT, DUMPABLE)
PROC_SYS = Path("/proc/sys")
PIPE, SOCKET, WATCH = "pipe", "socket", "watch"
SHAPES = (PIPE, SOCKET, WATCH)
PLAIN_SOCKET, HANDSHAKE = (6, 16), (6, 17)  # releases that brought @/path and @@/path (fs/coredump.c)
SOCKET_PATH_ROOM = 107  # sun_path less its NUL


@dataclass(frozen=True)
class Kernel:
    """Reads and writes sysctls below ``root``; ``release`` as uname prints it."""

    root: Path = PROC_SYS
    release: str = os.uname().release

    def read(self, name: str) -> str:
        """The value, without its newline. Raises UserError where there is none."""
        try:
            return self.path(name).read_text(errors="surrogateescape").rstrip("\n")
        except OSError as problem:
            raise _refused(name, problem, "read") from None

    def settings(self) -> dict[str, str]:
        """The three settings by name."""
        return {name: self.read(name) for name in NAMES}

    def write(self, name: str, value: str) -> None:
        """Set and read back. Raises UserError when the kernel refuses or changes it."""
        try:
            descriptor = os.open(self.path(name), os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value.encode(errors="surrogateescape") + b"\n")
            finally:
                os.close(descriptor)
        except OSError as problem:
            raise _refused(name, problem, "set") from None
        found = self.read(name)
        if found != value:
            raise UserError(f"the kernel made {found!r} of {value!r}", where=name, remedy="sysctl " + name)

    def path(self, name: str) -> Path:
        """The file of a sysctl."""
        return self.root / name.replace(".", "/")

    @property
    def version(self) -> tuple[int, int]:
        found = re.match(r"(\d{1,4})\.(\d{1,4})", self.release)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def modes(self) -> set[str] | None:
        """The shapes the kernel says it knows; None where it does not say (kernel.core_modes, 6.17)."""
        try:
            return set((self.root / "kernel/core_modes").read_text().split())
        except OSError:
            return None

    def socket_pattern(self, path: str) -> str:
        """core_pattern for a socket at ``path``. Raises UserError: it has none, or takes no such path."""
        modes = self.modes()
        if (modes is not None and SOCKET not in modes) or self.version < PLAIN_SOCKET:
            remedy = "use --shape pipe"
            raise UserError(
                f"the kernel ({self.release}) has no coredump socket", where="--shape socket", remedy=remedy
            )
        marks = "@@" if self.version >= HANDSHAKE else "@"
        text = marks + path
        fits = len(path) <= SOCKET_PATH_ROOM and len(text) <= PATTERN_ROOM
        plain = path.startswith("/") and ".." not in path and not re.search(r"[\s%]|/$", path)
        if not fits or not plain:
            raise UserError(
                "the kernel takes no such path",
                where=path,
                remedy="give a short absolute path without blanks",
            )
        return text


@contextmanager
def alone(kernel: Kernel) -> Iterator[None]:
    """Only one of us changes the kernel's settings at a time, wherever it installs to. The lock is on the
    kernel's own file and ends with the process that has it. Raises UserError when another one has it."""
    descriptor = os.open(kernel.path(PATTERN), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        remedy = "wait for it, then look at capture status"
        raise UserError("another installation or removal is at work", where=PATTERN, remedy=remedy) from None
    finally:
        os.close(descriptor)


def _refused(name: str, problem: OSError, what: str) -> UserError:
    why = (problem.strerror or "error").lower()
    return UserError(f"cannot be {what} ({why})", where=name, remedy="run it as root on the host itself")
