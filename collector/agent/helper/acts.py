"""What the helper does for the agent, each act about one known server and checked before and after."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzers.errors import UserError
from collector.agent.helper.protocol import LOG_FILE, OUTPUT, Request
from collector.agent.states.pulses import main_wait
from collector.discovery.look import mark_of
from collector.discovery.model import Found
from collector.gather.network import within
from collector.sources.procfs import GoneError, Process
from collector.sources.waits import owned_sockets, sockets_being_read

KMSG = Path("/dev/kmsg")
KMSG_NUMBER = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt of the kernel
SOCK_DIAG = 4  # NETLINK_SOCK_DIAG, include/uapi/linux/netlink.h
PIDFD_GETFD = 438  # of every architecture; include/uapi/asm-generic/unistd.h
MAX_INODES = 8192  # of one answer: a packet takes 96 KiB
_TICKS = os.sysconf("SC_CLK_TCK")
_REFUSALS = (OSError, GoneError, UserError, ValueError)


class RefusedError(Exception):
    """The request cannot be served; the words are ours and go to the client."""


@dataclass(frozen=True)
class Answer:
    """``told`` for the client and descriptors that go with it; whoever takes the answer closes them."""

    told: Mapping[str, Any]
    descriptors: tuple[int, ...] = ()


def act(request: Request, known: Callable[[int], Found | None]) -> Answer:
    """Serve a request about a server. Raises RefusedError."""
    found = known(request.pid)
    if found is None or not is_life(found, request.start):
        raise RefusedError("no such server is known")
    try:
        answer = _ACTS[request.op](found, request)
    except _REFUSALS as problem:
        raise RefusedError(_words(problem)) from None
    if is_life(found, request.start):
        return answer
    for descriptor in answer.descriptors:
        os.close(descriptor)
    raise RefusedError("the server has ended")


def is_life(found: Found, start: float) -> bool:
    """Whether ``start`` names this server's life, and the process of that number still lives it."""
    began, mark = found.incarnation.start_time, mark_of(found.pid)
    if began is None or mark is None or mark.dead:
        return False
    return round(began * _TICKS) == mark.start == round(start * _TICKS)


def open_kmsg(device: Path = KMSG) -> Answer:
    """The kernel's log for reading. Raises RefusedError."""
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as problem:
        raise RefusedError(_words(problem)) from None
    state = os.fstat(descriptor)
    if stat.S_ISCHR(state.st_mode) and state.st_rdev == KMSG_NUMBER:
        return Answer({"ok": True}, (descriptor,))
    os.close(descriptor)
    raise RefusedError("there is no /dev/kmsg here")


def _sockdiag(found: Found, _: Request) -> Answer:
    """A question to the kernel about the connections of the server's network namespace; closing connections
    over it needs rights of whoever sends, which the agent has not."""
    link = within(found.pid, lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG))
    return Answer({"ok": True}, (link.detach(),))


def _waits(found: Found, request: Request) -> Answer:
    if request.word == "main":
        return Answer({"text": main_wait(found.pid)})
    look = owned_sockets if request.word == "owned" else sockets_being_read
    inodes = look(found.pid)
    return Answer({"inodes": None if inodes is None else sorted(inodes)[:MAX_INODES]})


def _outputs(found: Found, _: Request) -> Answer:
    """Which log files there are to be asked for; one that is both is told once."""
    there: dict[tuple[int, int], int] = {}
    for number in (OUTPUT, OUTPUT + 1, LOG_FILE):
        with suppress(*_REFUSALS, RefusedError):
            descriptor = _opened(found, number)
            state = os.fstat(descriptor)
            os.close(descriptor)
            there.setdefault((state.st_dev, state.st_ino), number)
    return Answer({"outputs": sorted(there.values())})


def _log(found: Found, request: Request) -> Answer:
    return Answer({"ok": True}, (_opened(found, request.number),))


def _opened(found: Found, number: int) -> int:
    """A file that the server itself writes, for reading. A path that it was merely told would make the helper
    read any file of the host for whoever can start a process."""
    if number > OUTPUT + 1:
        raise RefusedError("no such output")
    if number != LOG_FILE:
        return written_by(found.pid, number)
    name = found.log_file
    with Process(found.pid) as process:
        numbers = [int(each) for each in process.names("fd") if name and _leads(process, each, name)]
    for each in numbers:
        with suppress(RefusedError, OSError):
            return written_by(found.pid, each)
    raise RefusedError("it has no such file open")


def _leads(process: Process, number: str, name: str) -> bool:
    try:
        link = process.link(f"fd/{number}")
        return link == (name if name.startswith("/") else os.path.join(process.link("cwd"), name))
    except (OSError, GoneError):
        return False


def written_by(pid: int, number: int) -> int:
    """The regular file that the process has open for writing as descriptor ``number``, opened for reading.

    Its very descriptor is looked at, not its name, which the process could exchange meanwhile. Raises
    OSError, RefusedError.
    """
    handle = _taken(pid, number)
    try:
        # Whoever may write a file has opened it so; O_PATH would do for a file that it may not even read.
        mode = fcntl.fcntl(handle, fcntl.F_GETFL)
        writes = mode & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR) and not mode & os.O_PATH
        if not writes or not stat.S_ISREG(os.fstat(handle).st_mode):
            raise RefusedError("it is no file that the server writes")
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def _taken(pid: int, number: int) -> int:
    """pidfd_getfd(2)."""
    whole = os.pidfd_open(pid)
    try:
        taken = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, whole, number, 0)
        if taken < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return int(taken)
    finally:
        os.close(whole)


def _words(problem: BaseException) -> str:
    """Of a refusal, without any name that it carries."""
    if isinstance(problem, OSError):
        return (problem.strerror or "error").lower()
    return "the process is gone" if isinstance(problem, GoneError) else "it could not be done"


_ACTS: Mapping[str, Callable[[Found, Request], Answer]] = {
    "sockdiag": _sockdiag,
    "outputs": _outputs,
    "log": _log,
    "waits": _waits,
}
