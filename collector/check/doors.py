"""Who can reach the server: the addresses it listens on, as the kernel has them, and whether it asks for a
key."""

from __future__ import annotations

import ipaddress
import os
from contextlib import suppress
from dataclasses import dataclass

from analyzers.errors import UserError
from collector.check.model import Finding, Level
from collector.gather.network import inside
from collector.sources.procfs import PROC, GoneError
from collector.sources.sockdiag import read_listening
from collector.sources.waits import owned_sockets

SCOPE = "scope"
ALL, LOCAL, SOME, NOWHERE, UNKNOWN = "all", "local", "some", "none", "unknown"
MAX_DOORS = 32
Table = dict[int, tuple[str, int]]


@dataclass(frozen=True)
class Doors:
    """``scope``: all (every address of its network) | some (an address of the network) | local | none (no
    TCP socket) | unknown. ``key``: a key is asked for; None not known."""

    scope: str = UNKNOWN
    addresses: tuple[tuple[str, int], ...] = ()
    key: bool | None = None
    tls: bool | None = None
    own_network: bool = True

    @property
    def open(self) -> bool:
        """Reached from other machines, and asks nobody for a key."""
        return self.scope in (ALL, SOME) and self.key is False

    def shown(self) -> list[str]:
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.addresses]


class Listening:
    """Tables of listening sockets by network namespace, each asked for once."""

    def __init__(self) -> None:
        self._tables: dict[str, Table | None] = {}
        self._own = _namespace("self")

    def of(self, pid: int, key: bool | None, tls: bool | None) -> Doors:
        """What ``pid`` listens on. Raises nothing."""
        mine, space = owned_sockets(pid), _namespace(pid)
        if mine is None or space is None:
            return Doors(key=key, tls=tls)
        if space not in self._tables:
            self._tables[space] = self._read(pid, space)
        table = self._tables[space]
        if table is None:
            return Doors(key=key, tls=tls, own_network=space == self._own)
        rows = tuple(sorted({table[inode] for inode in mine if inode in table}))[:MAX_DOORS]
        return Doors(scope_of([host for host, _ in rows]), rows, key, tls, space == self._own)

    def _read(self, pid: int, space: str) -> Table | None:
        with suppress(OSError, GoneError, UserError):
            return read_listening() if space == self._own else inside(pid, read_listening)
        return None


def scope_of(hosts: list[str]) -> str:
    """The widest of numeric addresses."""
    if not hosts:
        return NOWHERE
    found = [ipaddress.ip_address(host.partition("%")[0]) for host in hosts]
    if any(one.is_unspecified for one in found):
        return ALL
    return LOCAL if all(one.is_loopback for one in found) else SOME


def door_rules(doors: Doors, hosted: bool, key_on_line: bool) -> list[Finding]:
    """How far requests, and with them crashes, can come from."""
    made = []
    where = ", ".join(doors.shown()) or None
    if doors.scope == UNKNOWN:
        what, why = (
            "the addresses it listens on could not be looked up",
            "how far it can be reached is not known",
        )
        made.append(Finding(SCOPE, SCOPE, Level.UNREAD, what, why, "run it with sudo"))
    elif doors.scope in (ALL, SOME) and doors.key is not True:
        every = "on every address" if doors.scope == ALL else "on a network address"
        asks = "and asks for no key" if doors.key is False else "and whether it asks for a key is not known"
        why = "whoever reaches the port can use it, and send the one request that a defect needs"
        if not doors.own_network:
            why += "; it has a network of its own: only published ports are reached from outside"
        change = "--host 127.0.0.1, or --api-key-file FILE (mode 0600)"
        if hosted:
            change = "the host address and the key in the program that hosts it"
        level = Level.RISK if doors.key is False else Level.UNREAD
        made.append(Finding(SCOPE, SCOPE, level, f"it listens {every} {asks}", why, change, where))
    if key_on_line:
        why = "every user of this host can read it with ps"
        change = "--api-key-file FILE (mode 0600)"
        made.append(
            Finding("key-on-line", SCOPE, Level.NOTE, "its key stands on its command line", why, change)
        )
    return made


def _namespace(pid: int | str) -> str | None:
    try:
        return os.readlink(PROC / str(pid) / "ns/net")
    except OSError:
        return None
