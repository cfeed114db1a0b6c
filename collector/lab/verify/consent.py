"""A server that this run did not start is touched only when the user names its host and says so."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from analyzers.errors import UserError
from collector.lab.reference.output import printable

URL_LIMIT = 2000
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Target:
    """A running server. ``prefix`` is the path before every route, without a slash at its end."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @property
    def name(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def consented(url: str, touch_host: str | None) -> Target:
    """The target, when ``touch_host`` names exactly its host.

    Loopback needs it as well: what listens there may be somebody's production server. Raises UserError
    for another host, for none, and for an address that cannot be used.
    """
    target = _target(url)
    if touch_host is None:
        raise UserError(
            "this run did not start that server, and its requests could wake or crash it",
            where=printable(target.name),
            remedy=f"if it is yours to touch, add --touch-host {printable(target.host)}",
        )
    if touch_host.strip().strip("[]").casefold() != target.host.casefold():
        raise UserError(
            f"--touch-host names another host ({printable(touch_host)})",
            where=printable(target.name),
            remedy="name the host of --target, or leave --target out",
        )
    return target


def _target(url: str) -> Target:
    shown = printable(url[:URL_LIMIT])
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _unusable(shown, "not an address") from None
    if len(url) > URL_LIMIT or not url.isprintable() or any(letter.isspace() for letter in url):
        raise _unusable(shown, "not an address")
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise _unusable(shown, "not an address of the kind http://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise UserError(
            "the address holds a user name or password", where="--target", remedy="leave them out"
        )
    if parts.query or parts.fragment:
        raise _unusable(shown, "an address with a query")
    return Target(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))


def _unusable(shown: str, why: str) -> UserError:
    return UserError(why, where=f"--target {shown}", remedy="give one like http://127.0.0.1:8080")
