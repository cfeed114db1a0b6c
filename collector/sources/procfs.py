"""Reading one process under /proc without mixing it up with a later process of the same number."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from analyzers.contracts.evidence import Incarnation

PROC = Path("/proc")
_MAX_FILE = 1 << 20  # argv and environ are bounded by the kernel at far more; nothing here needs more
_STARTTIME = 19  # field 22 of /proc/PID/stat, counted from the field after the name
_UTIME, _STIME, _THREADS, _STATE = 11, 12, 17, 0


class GoneError(Exception):
    """The process ended, or was never there."""


class Process:
    """One process, held by a descriptor of its /proc folder: after its death reads fail, never hit another.

    A context manager. ``pidfd`` is the kernel's own handle, None where it has none. Raises GoneError.
    """

    def __init__(self, pid: int, *, proc: Path = PROC) -> None:
        self.pid = pid
        try:
            self._folder = os.open(proc / str(pid), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise GoneError(pid) from None
        self.pidfd = _pidfd(pid) if proc == PROC else None

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (self._folder, self.pidfd):
            if descriptor is not None:
                os.close(descriptor)

    def read(self, name: str) -> bytes:
        """Up to one MiB of /proc/PID/``name``. Raises GoneError, or PermissionError."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        except (FileNotFoundError, ProcessLookupError):
            raise GoneError(self.pid) from None
        try:
            return _read_all(descriptor)
        except ProcessLookupError:
            raise GoneError(self.pid) from None
        finally:
            os.close(descriptor)

    def link(self, name: str) -> str:
        """Target of a link such as ``exe`` or ``fd/5``. Raises GoneError, or PermissionError."""
        try:
            return os.readlink(name, dir_fd=self._folder)
        except (FileNotFoundError, ProcessLookupError):
            raise GoneError(self.pid) from None

    def names(self, folder: str) -> list[str]:
        """Names in ``task`` or ``fd``. Raises GoneError, or PermissionError."""
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder)
        except (FileNotFoundError, ProcessLookupError):
            raise GoneError(self.pid) from None
        try:
            return os.listdir(descriptor)
        except (FileNotFoundError, ProcessLookupError):
            raise GoneError(self.pid) from None
        finally:
            os.close(descriptor)

    def memory(self, address: int, size: int) -> bytes:
        """Bytes of the process's memory, empty where it has none. Raises GoneError, or PermissionError."""
        try:
            descriptor = os.open("mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        except (FileNotFoundError, ProcessLookupError):
            raise GoneError(self.pid) from None
        try:
            return os.pread(descriptor, size, address)
        except (OSError, OverflowError):
            return b""
        finally:
            os.close(descriptor)

    def stat(self) -> list[str]:
        """The fields of /proc/PID/stat after the name, which may itself hold blanks and brackets."""
        fields = self.read("stat").decode("ascii", "replace").rpartition(")")[2].split()
        if len(fields) <= _STARTTIME:
            raise GoneError(self.pid)
        return fields

    def incarnation(self) -> Incarnation:
        """PID, start time in seconds since boot (resolution one clock tick, 10 ms) and boot id."""
        started = int(self.stat()[_STARTTIME]) / os.sysconf("SC_CLK_TCK")
        return Incarnation(pid=self.pid, start_time=started, boot_id=boot_id())

    def state(self) -> str:
        """The kernel's state letter of the main thread; ``t`` means stopped by a tracer."""
        return self.stat()[_STATE]

    def cpu_seconds(self) -> float:
        """User and system time of all threads so far."""
        fields = self.stat()
        return (int(fields[_UTIME]) + int(fields[_STIME])) / os.sysconf("SC_CLK_TCK")

    def threads(self) -> int:
        """Number of threads."""
        return int(self.stat()[_THREADS])

    def tracer(self) -> int:
        """PID of the tracer of any thread, 0 for none."""
        for task in self.names("task"):
            with suppress(GoneError):
                tracer = _status_number(self.read(f"task/{task}/status"), b"TracerPid")
                if tracer:
                    return tracer
        return 0


def boot_id() -> str | None:
    """The kernel's id of this boot, None where it is hidden."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


def read_incarnation(pid: int) -> Incarnation | None:
    """Which life of ``pid`` this is; None when it is gone."""
    try:
        with Process(pid) as process:
            return process.incarnation()
    except (GoneError, PermissionError):
        return None


def _status_number(status: bytes, name: bytes) -> int:
    for line in status.splitlines():
        if line.startswith(name + b":"):
            value = line.partition(b":")[2].split()
            return int(value[0]) if value and value[0].isdigit() else 0
    return 0


def _read_all(descriptor: int) -> bytes:
    kept = bytearray()
    while len(kept) < _MAX_FILE:
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        kept += chunk
    return bytes(kept[:_MAX_FILE])


def _pidfd(pid: int) -> int | None:
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        descriptor: int = opener(pid)
    except OSError:
        return None
    return descriptor
