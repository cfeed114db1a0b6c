"""The live server that sources look at and actions act on, as the caller names it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from analyzers.errors import UserError


@dataclass(frozen=True)
class Target:
    """One listening server. ``host`` is a numeric address; the key never shows in ``repr`` or evidence.

    ``pid`` lets sources tell this server's sockets from another process's on the same port number.
    Raises UserError when host, port or key cannot be used.
    """

    port: int
    host: str = "127.0.0.1"
    pid: int | None = None
    scheme: str = "http"
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise UserError("not a TCP port", where=f"port {self.port}", remedy="give 1 to 65535")
        if self.scheme not in ("http", "https"):
            raise UserError("not a scheme of this server", where=self.name, remedy="give http or https")
        if not _numeric(self.host):
            # A name would be resolved by a call that no time-out of ours bounds.
            raise UserError("not a numeric address", where="host", remedy="give an IPv4 or IPv6 address")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise UserError("not usable in a header", where="API key", remedy="give printable ASCII text")

    @property
    def name(self) -> str:
        """How evidence names the server: by its port alone."""
        return f"server on port {self.port}"

    @property
    def base_url(self) -> str:
        """Scheme, address and port, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def _numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host
