"""What the operator wants of one server: watched, asked how, with which key; and how to reach it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.errors import UserError
from collector.agent.config.load import read_secret
from collector.agent.config.model import Config, TargetTable
from collector.discovery.model import Found, Listening
from collector.sources.target import Target

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where a server listens, not where we do


@dataclass(frozen=True)
class Wishes:
    """The operator's word on one server, defaults filled in. ``key`` never shows in ``repr``."""

    watch: bool = True
    probe: bool = True
    metrics: bool = False
    release: bool = False
    key: str | None = field(default=None, repr=False)
    host: str | None = None
    scheme: str | None = None
    prefix: str | None = None


class Wishlist:
    """The settings file's targets, their keys read. ``problems`` are lines on keys that cannot be used."""

    def __init__(self, config: Config, *, read: Callable[[Path], str] = read_secret) -> None:
        self._config = config
        self.problems: list[str] = []
        self._keys = self._read_keys(config.target, read)

    def _read_keys(self, targets: Sequence[TargetTable], read: Callable[[Path], str]) -> Mapping[Path, str]:
        keys = {}
        for path in dict.fromkeys(each.api_key_file for each in targets if each.api_key_file is not None):
            try:
                keys[path] = read(path)
            except UserError as error:
                self.problems.append(str(error))
        return keys

    def of(self, found: Found) -> Wishes:
        """What all tables that name this server say together; a later one outranks an earlier one."""
        wishes = Wishes(
            probe=self._config.probes.enabled,
            metrics=self._config.probes.metrics,
            release=self._config.stranded.release,
        )
        for table in self._config.target:
            if names(table, found):
                wishes = self._joined(wishes, table)
        return wishes

    def _joined(self, wishes: Wishes, table: TargetTable) -> Wishes:
        key = self._keys.get(table.api_key_file) if table.api_key_file is not None else None
        return Wishes(
            watch=wishes.watch and table.watch,
            probe=wishes.probe if table.probe is None else table.probe,
            metrics=wishes.metrics if table.metrics is None else table.metrics,
            release=wishes.release if table.release is None else table.release,
            key=key or wishes.key,
            host=table.host or wishes.host,
            scheme=table.scheme or wishes.scheme,
            prefix=table.prefix or wishes.prefix,
        )


def names(table: TargetTable, found: Found) -> bool:
    """True when everything that the table gives fits the server."""
    listening, place = found.listening, found.place
    return all(
        (
            table.port is None or any(one.port == table.port for one in listening),
            table.socket is None or any(one.socket == str(table.socket) for one in listening),
            table.unit is None or table.unit == place.unit,
            table.container is None or _container(table.container, place.container),
            table.model is None or table.model == found.model,
        )
    )


def _container(told: str, id: str | None) -> bool:
    """A container's id may be given short, as its tools print it."""
    return id is not None and len(told) >= 12 and id.startswith(told)


def target_of(found: Found, wishes: Wishes) -> Target | None:
    """How to reach the server; None when it listens nowhere yet, or nowhere that can be asked."""
    at = next((one for one in found.listening if one.port or one.socket), None)
    if at is None:
        return None
    try:
        return _target(found, wishes, at)
    except UserError:  # an address or a prefix that no server of this kind can have
        return None


def _target(found: Found, wishes: Wishes, at: Listening) -> Target:
    return Target(
        port=at.port,
        host=wishes.host or _ANY.get(at.host, at.host),
        pid=found.pid,
        scheme=wishes.scheme or ("https" if found.tls else "http"),
        api_key=wishes.key,
        prefix=wishes.prefix or found.prefix,
        socket=at.socket if at.port == 0 else None,
        # The socket was found among the process's own: its certificate proves nothing more, and is seldom
        # made out to a numeric address.
        verify=False,
    )
