"""Reading the dying process under /proc by a descriptor of its folder: never another one of its number."""

import os

from collector.capture.crash import limits


class Process:
    """``read`` and the others raise OSError for what is not there, or no longer there."""

    def __init__(self, pid: int, root: str = "/proc") -> None:
        self.pid = pid
        self.folder = os.open(f"{root}/{pid}", os.O_RDONLY | os.O_DIRECTORY)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of /proc/PID/``name``."""
        return os.open(name, flags, dir_fd=self.folder)

    def read(self, name: str, limit: int = limits.TEXT_BYTES) -> bytes:
        """The first ``limit`` bytes of /proc/PID/``name``."""
        return read_some(self.open(name), limit)

    def link(self, name: str) -> str:
        """Target of a link such as ``exe`` or ``ns/net``."""
        return os.readlink(name, dir_fd=self.folder)

    def names(self, name: str, limit: int) -> list[str]:
        """At most ``limit`` names in a folder such as ``task`` or ``fd``."""
        descriptor = self.open(name, os.O_RDONLY | os.O_DIRECTORY)
        found = []
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) >= limit:
                        break
        finally:
            os.close(descriptor)
        return found

    def start_ticks(self) -> int:
        """Field 22 of stat: start in clock ticks since boot. Raises ValueError for an unreadable line."""
        fields = self.read("stat").rpartition(b")")[2].split()
        if len(fields) < 20:
            raise ValueError("stat is cut")
        return int(fields[19])


def pid_of(pidfd: int) -> "int | None":
    """The PID a pidfd stands for: -1 once it was reaped, None where that cannot be told."""
    for line in read_file(f"/proc/self/fdinfo/{pidfd}", 4096).split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"Pid" and value.strip().lstrip(b"-").isdigit():
            return int(value)
    return None


def read_some(descriptor: int, limit: int) -> bytes:
    """Up to ``limit`` bytes of an open file, which is closed."""
    parts, left = [], limit
    try:
        while left > 0:
            part = os.read(descriptor, min(left, 1 << 16))
            if not part:
                break
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def read_file(path: str, limit: int = limits.TEXT_BYTES) -> bytes:
    """Up to ``limit`` bytes of a file of the kernel's; empty when it cannot be read."""
    try:
        return read_some(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), limit)
    except OSError:
        return b""
