"""On which addresses a process listens: its own sockets, looked up in its own network namespace."""

from __future__ import annotations

import os
from contextlib import suppress

from collector.discovery.model import Listening
from collector.gather.network import listeners, unix_listeners
from collector.sources.procfs import GoneError, Process

MAX_LISTENING = 32  # addresses of one server: it opens one, or one per --host
MAX_SOCKET = 4096


def listening(pid: int, wanted: int | None = None) -> tuple[tuple[Listening, ...], bool]:
    """(its addresses, the one with port ``wanted`` first; whether they could be looked up)."""
    found = listeners(pid)
    if found is None:
        return (), False
    where = _namespace(pid)
    rows = [Listening(host=one.host, port=one.port, netns=where) for one in found]
    rows += [
        Listening(host="", socket=path[:MAX_SOCKET], netns=where)
        for path in unix_listeners(pid)
        if not path.startswith("@")
    ]
    rows.sort(key=lambda one: (one.port != wanted, one.socket or "", one.port))
    return tuple(rows[:MAX_LISTENING]), True


def _namespace(pid: int) -> int | None:
    """Inode of its network namespace, None when it is ours or cannot be told."""
    with suppress(GoneError, OSError), Process(pid) as process:
        name = process.link("ns/net")
        inner = name.partition("[")[2].rstrip("]")
        if name != os.readlink("/proc/self/ns/net") and inner.isdigit():
            return int(inner)
    return None
