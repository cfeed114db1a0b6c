"""Which sockets a process owns, and which of them its threads are still waiting to read a request from.

A request whose upload stalled and a stranded one look the same to TCP. They differ inside the server: it
waits in poll or recv on the first one's socket, and in its result queue for the second.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress

from collector.sources.procfs import GoneError, Process

_POLLFD = struct.Struct("=ihh")
_MAX_THREADS = 4096
_ALL_EVENTS = 1 << 14  # beyond POLLRDHUP, the highest of poll(2)
_MAX_POLLED = 16  # an HTTP thread polls one socket; longer lists belong to other code

# Numbers of the calls by which a thread waits for input: arch/x86/entry/syscalls/syscall_64.tbl and
# include/uapi/asm-generic/unistd.h.
_CALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {0: "read", 45: "read", 47: "read", 7: "poll", 271: "ppoll", 219: "restarted"},
    "aarch64": {63: "read", 207: "read", 212: "read", 73: "ppoll"},
}


def owned_sockets(pid: int) -> frozenset[int] | None:
    """Inodes of the process's sockets; None when it is gone or may not be looked into (another user's)."""
    try:
        with Process(pid) as process:
            inodes = (_inode(process, number) for number in process.names("fd"))
            return frozenset(inode for inode in inodes if inode is not None)
    except (GoneError, PermissionError):
        return None


def sockets_being_read(pid: int, *, machine: str | None = None) -> frozenset[int] | None:
    """Inodes of the sockets on which a thread of the process waits for input right now.

    None when that cannot be seen: the process is gone, its ``syscall`` file needs rights (ptrace access, same
    user or CAP_SYS_PTRACE) or the machine's call numbers are not known.
    """
    calls = _CALLS.get(machine or platform.machine())
    if calls is None:
        return None
    try:
        with Process(pid) as process:
            found = set()
            for task in process.names("task")[:_MAX_THREADS]:
                with suppress(GoneError):
                    found |= _read_by(process, task, calls)
            return frozenset(found)
    except (GoneError, PermissionError):
        return None


def _read_by(process: Process, task: str, calls: Mapping[int, str]) -> set[int]:
    words = process.read(f"task/{task}/syscall").split()
    if len(words) < 4 or not words[0].isdigit():
        return set()  # "running", or "-1" outside a call
    kind = calls.get(int(words[0]))
    arguments = [int(word, 16) for word in words[1:4]]
    numbers = waited_for(kind, arguments, process)
    return {inode for inode in (_inode(process, str(number)) for number in numbers) if inode is not None}


def waited_for(kind: str | None, arguments: list[int], process: Process) -> Iterator[int]:
    """Descriptor numbers that one blocked call waits for; a poll that does not wait is a mere look."""
    if kind == "read":
        yield arguments[0]
    elif kind in ("poll", "ppoll"):
        if kind == "poll" and arguments[2] == 0:
            return
        size = _POLLFD.size * min(arguments[1], _MAX_POLLED)
        rows = process.memory(arguments[0], size)
        for number, _, _ in _POLLFD.iter_unpack(rows[: len(rows) // _POLLFD.size * _POLLFD.size]):
            yield number
    elif kind == "restarted" and 0 < arguments[1] <= _MAX_POLLED:
        # A poll that a snapshot or a signal stopped goes on as restart_syscall, its registers untouched. So
        # do sleeps and timed futexes, whose words make no row of poll(2).
        rows = process.memory(arguments[0], _POLLFD.size * arguments[1])
        if len(rows) == _POLLFD.size * arguments[1]:
            asked = list(_POLLFD.iter_unpack(rows))
            sound = all(0 < events < _ALL_EVENTS and not told for _, events, told in asked)
            yield from (number for number, _, _ in asked if sound)


def _inode(process: Process, number: str) -> int | None:
    try:
        kind, _, rest = process.link(f"fd/{number}").partition(":")
    except GoneError:
        return None  # closed meanwhile
    return int(rest.strip("[]")) if kind == "socket" and rest.strip("[]").isdigit() else None
