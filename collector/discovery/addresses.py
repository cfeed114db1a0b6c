"""On which addresses processes listen: their own sockets, looked up once for each network namespace."""

from __future__ import annotations

import ipaddress
import os
from contextlib import suppress

from analyzers.errors import UserError
from collector.discovery.model import Listening
from collector.gather.network import ACCEPTS, inside
from collector.sources.procfs import GoneError, Process
from collector.sources.sockdiag import read_listening
from collector.sources.waits import owned_sockets

MAX_LISTENING = 32  # addresses of one server: it opens one, or one per --host
MAX_SOCKET = 4096  # characters of a unix socket's path; the kernel takes 108
Table = dict[int, Listening]  # socket inode to address


class Addresses:
    """Tables of listening sockets by network namespace, kept until ``forget``. Not thread-safe."""

    def __init__(self) -> None:
        self._tables: dict[str, Table | None] = {}
        self._own = _namespace("self")

    def forget(self) -> None:
        """The next look asks the kernel again."""
        self._tables.clear()

    def of(self, pid: int, wanted: int | None = None) -> tuple[tuple[Listening, ...], bool]:
        """(the process's addresses, the one with port ``wanted`` first; whether they could be looked up)."""
        mine = owned_sockets(pid)
        space = _namespace(pid) if mine else None
        if mine is None or (mine and space is None):
            return (), False
        table = self._table(pid, space) if space is not None else {}
        if table is None:
            return (), False
        rows = [table[inode] for inode in mine if inode in table]
        rows.sort(key=lambda one: (one.port != wanted, one.socket or "", one.port, one.host))
        return tuple(rows[:MAX_LISTENING]), True

    def _table(self, pid: int, space: str) -> Table | None:
        if space not in self._tables:
            with suppress(OSError, GoneError, UserError):
                self._tables[space] = _read(pid, None if space == self._own else _number(space))
            self._tables.setdefault(space, None)
        return self._tables[space]


def _read(pid: int, space: int | None) -> Table:
    """Everything that listens in the network namespace of ``pid``. Raises OSError, GoneError, UserError."""
    tcp = read_listening() if space is None else inside(pid, read_listening)
    made = {
        inode: Listening(host=_reachable(host), port=port, netns=space) for inode, (host, port) in tcp.items()
    }
    with Process(pid) as process:
        for line in process.read("net/unix").decode("utf-8", "surrogateescape").splitlines()[1:]:
            row = line.split(None, 7)
            if len(row) == 8 and int(row[3], 16) & ACCEPTS and not row[7].startswith("@"):
                path = row[7].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                made[int(row[6])] = Listening(host="", socket=path[:MAX_SOCKET], netns=space)
    return made


def _reachable(host: str) -> str:
    """An address that reaches it from its own host: any address is reached over loopback."""
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        return "::1" if address.version == 6 else "127.0.0.1"
    return host


def _namespace(pid: int | str) -> str | None:
    """The kernel's name of a network namespace; None when it cannot be told."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def _number(space: str) -> int:
    inner = space.partition("[")[2].rstrip("]")
    return int(inner) if inner.isdigit() else 0
