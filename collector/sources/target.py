"""The live server that sources look at and actions act on, as the caller names it."""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
from dataclasses import dataclass, field

from analyzers.errors import UserError

MAX_SOCKET = 107  # bytes of sun_path, unix(7)
_PREFIX = re.compile(r"(?:/[\w.~-]{1,100}){1,8}", re.ASCII)


@dataclass(frozen=True)
class Target:
    """One listening server. ``host`` is a numeric address; the key never shows in ``repr`` or evidence.

    ``pid`` lets sources tell this server's sockets from another process's on the same port number.
    ``prefix`` is what the server was told by --api-prefix; ``socket`` the path of a unix socket, which stands
    for host and port (0). ``verify`` False takes any certificate: only where the socket itself is known to be
    the process's own. Raises UserError when host, port, prefix, path or key cannot be used.
    """

    port: int
    host: str = "127.0.0.1"
    pid: int | None = None
    scheme: str = "http"
    api_key: str | None = field(default=None, repr=False)
    prefix: str = ""
    socket: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if self.socket is None and not 0 < self.port < 65536:
            raise UserError("not a TCP port", where=f"port {self.port}", remedy="give 1 to 65535")
        if self.scheme not in ("http", "https"):
            raise UserError("not a scheme of this server", where=self.name, remedy="give http or https")
        if not _numeric(self.host):
            # A name would be resolved by a call that no time-out of ours bounds.
            raise UserError("not a numeric address", where="host", remedy="give an IPv4 or IPv6 address")
        if self.prefix and _PREFIX.fullmatch(self.prefix) is None:
            raise UserError("not a prefix of routes", where="API prefix", remedy="give it as /a/b")
        if self.socket is not None and len(os.fsencode(self.socket)) > MAX_SOCKET:
            raise UserError(
                "longer than a unix socket's path can be", where="socket", remedy="start it from nearer by"
            )
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise UserError("not usable in a header", where="API key", remedy="give printable ASCII text")

    @property
    def name(self) -> str:
        """How evidence names the server: by its port alone."""
        return f"server on port {self.port}" if self.socket is None else "server on its unix socket"

    @property
    def base_url(self) -> str:
        """Scheme, address, port and prefix, without a trailing slash."""
        if self.socket is not None:
            return f"{self.scheme}://localhost{self.prefix}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"

    def curl(self, route: str, *words: str) -> str:
        """The command by which a person asks ``route``, for at most 5 seconds."""
        unchecked = ["-k"] if self.scheme == "https" and not self.verify else []
        socket = ["--unix-socket", shlex.quote(self.socket)] if self.socket is not None else []
        return " ".join(["curl -sm 5", *unchecked, *socket, *words, f"{self.base_url}{route}"])


def _numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host
