"""Where a server listens, and how to ask it there: its own network namespace included."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from collector.sources.procfs import PROC, GoneError, Process
from collector.sources.waits import owned_sockets

ACCEPTS, CONNECTED = 0x10000, "03"  # __SO_ACCEPTCON and SS_CONNECTED in /proc/net/unix
LISTENING = "0A"  # TCP_LISTEN in /proc/net/tcp
CLONE_NEWNET = 0x40000000  # include/uapi/linux/sched.h
T = TypeVar("T")


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket, or (``path``) a unix one. ``host`` is an address that reaches it from its own
    host, ``path`` one that this process can open."""

    host: str
    port: int
    path: str | None = None


def listeners(pid: int) -> list[Listener] | None:
    """The process's own listening TCP sockets, in its network namespace; None when they may not be seen."""
    mine = owned_sockets(pid)
    if mine is None:
        return None
    found: dict[int, Listener] = {}
    try:
        with Process(pid) as process:
            for name in ("net/tcp", "net/tcp6"):
                with suppress(GoneError):
                    for listener, inode in _rows(process.read(name)):
                        if inode in mine:
                            found.setdefault(listener.port, listener)
    except (GoneError, PermissionError):
        return None
    return list(found.values())


def unix_listeners(pid: int) -> list[str]:
    """Paths of the process's own listening unix sockets, as it bound them; none when they may not be seen."""
    mine = owned_sockets(pid) or frozenset()
    return [row[7] for row in _unix_rows(pid) if int(row[3], 16) & ACCEPTS and int(row[6]) in mine]


def unix_clients(pid: int, path: str) -> int:
    """How many clients are connected to the unix socket that was bound as ``path``."""
    return sum(row[7] == path and row[5] == CONNECTED for row in _unix_rows(pid))


def _unix_rows(pid: int) -> list[list[str]]:
    """Of /proc/net/unix what has a path: Num RefCount Protocol Flags Type St Inode Path."""
    try:
        with Process(pid) as process:
            table = process.read("net/unix").decode("utf-8", "surrogateescape")
    except (GoneError, PermissionError):
        return []
    return [row for line in table.splitlines()[1:] if len(row := line.split(None, 7)) == 8]


def reachable_path(pid: int, path: str) -> str | None:
    """``path`` as this process opens it, through the other one's root or folder; None for no socket."""
    own = PROC / str(pid) / ("root" if path.startswith("/") else "cwd") / path.lstrip("/")
    with suppress(OSError):
        if not own.is_socket():
            return None
        # The plain path where it leads to the same socket: a unix socket's path must be short.
        if path.startswith("/") and Path(path).exists() and Path(path).samefile(own):
            return path
        return str(own)
    return None


def within(pid: int, work: Callable[[], T]) -> T:
    """Do ``work`` in the process's network namespace where it has one of its own. Raises as ``inside``."""
    return inside(pid, work) if same_network(pid) is False else work()


def _rows(table: bytes) -> Iterator[tuple[Listener, int]]:
    for line in table.decode("ascii", "replace").splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == LISTENING and words[9].isdigit():
            address, _, port = words[1].partition(":")
            yield Listener(_reachable(address), int(port, 16)), int(words[9])


def _reachable(text: str) -> str:
    """/proc/net writes 32-bit words in host order. Any address is reached over loopback."""
    words = [int(text[at : at + 8], 16).to_bytes(4, "little") for at in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    if address.is_unspecified:
        # A socket on :: usually takes IPv4 as well, but not on a host that says otherwise.
        return "::1" if address.version == 6 else "127.0.0.1"
    return str(address)


def same_network(pid: int) -> bool | None:
    """True when the process is in our own network namespace; None when that cannot be told."""
    try:
        with Process(pid) as process:
            return process.link("ns/net") == os.readlink("/proc/self/ns/net")
    except (GoneError, OSError):
        return None


def inside(pid: int, work: Callable[[], T]) -> T:
    """Do ``work`` in the network namespace of ``pid``, in a thread of its own that then ends.

    Raises PermissionError without CAP_SYS_ADMIN; whatever ``work`` raises comes through.
    """
    box: list[T] = []
    problem: list[BaseException] = []

    def act() -> None:
        try:
            _enter(pid)
            box.append(work())
        except BaseException as raised:  # noqa: BLE001 - raised again in the caller's thread
            problem.append(raised)

    thread = threading.Thread(target=act, name="netns")
    thread.start()
    thread.join()
    if problem:
        raise problem[0]
    return box[0]


def _enter(pid: int) -> None:
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
            raise PermissionError(ctypes.get_errno(), "the network namespace may not be entered")
    finally:
        os.close(descriptor)
