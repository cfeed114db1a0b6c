"""Where and how a living server can be asked: its own TCP or unix socket, its scheme, its routes' prefix.

The socket is looked up among the process's own, so that what answers is this process whatever a certificate
says: a server's is made for its public name, and it is asked on an address of this host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from analyzers.errors import UserError
from collector.gather.haul import Haul
from collector.gather.living import Known
from collector.gather.network import Listener, listeners, reachable_path, unix_listeners, within
from collector.gather.servers import Server
from collector.gather.settings import told
from collector.gather.tools import quoted
from collector.sources.probes import Probe, probe_health
from collector.sources.target import Target

PORT, HOST, PREFIX, CERTIFICATE = ("--port",), ("--host",), ("--api-prefix",), ("--ssl-cert-file",)
DEFAULT_PORT = 8080  # common/arg.cpp
SOCKET_END = ".sock"  # a host that ends so is a unix socket's path: server-http.cpp
UNANSWERED = "its clients and its answers"
NOT_FOUND = 404
Ask = Callable[..., Probe]


@dataclass(frozen=True)
class Named:
    """What the operator says of the address; everything left out is looked up. ``key``: the API key."""

    port: int | None = None
    prefix: str | None = None
    key: str | None = None


def target_of(haul: Haul, server: Server, known: Known, named: Named, timeout: float) -> Target | None:
    """The server's address; None, and a gap with what to do, when it cannot be told."""
    prefix = named.prefix or told(known.args, known.env, PREFIX, "LLAMA_ARG_API_PREFIX") or ""
    secure = told(known.args, known.env, CERTIFICATE, "LLAMA_ARG_SSL_CERT_FILE") is not None
    found, sure = _listener(haul, server, known, named.port)
    if found is None:
        return None
    try:
        target = Target(
            found.port,
            host=found.host,
            pid=server.pid,
            scheme="https" if secure else "http",
            api_key=_key(haul, named.key, sure),
            prefix=prefix,
            socket=found.path,
            verify=False,
        )
    except UserError as problem:
        if named.prefix is not None:
            raise
        haul.gap(UNANSWERED, f"{problem.where}: {problem.what}", "--api-prefix PREFIX")
        return None
    return _as_it_answers(haul, target, timeout) if server.hosted else target


def _key(haul: Haul, key: str | None, sure: bool) -> str | None:
    """The key, unless it is not certain who would be told it."""
    if key is None or sure:
        return key
    why = "whose socket that is may not be seen by this user, so the key was not sent there"
    haul.gap("whether it sleeps", why, "run it with sudo, or as the user the server runs as")
    return None


def _as_it_answers(haul: Haul, target: Target, timeout: float) -> Target:
    """A hosted server's command line names neither scheme nor prefix: /health, which wakes nothing, does."""
    assert target.pid is not None  # noqa: S101 - target_of names it
    try:
        first = within(target.pid, lambda: probe_health(target, timeout=timeout))
        if first.outcome in ("garbage", "refused"):
            secure = replace(target, scheme="https")
            if within(target.pid, lambda: probe_health(secure, timeout=timeout)).fact.status is not None:
                return secure
    except PermissionError:  # a network namespace that may not be entered: the look says so
        return target
    if first.fact.status == NOT_FOUND:
        why = "it has no /health where it listens, so its routes stand behind a prefix that is not known"
        haul.gap("answers to probes", why, "collect --live --api-prefix PREFIX")
    return target


def _listener(haul: Haul, server: Server, known: Known, port: int | None) -> tuple[Listener | None, bool]:
    """(the socket it serves on, whether it is known to be its own): the one named, the one its settings
    name, or its only one."""
    seen = listeners(server.pid)
    hosts = (told(known.args, known.env, HOST, "LLAMA_ARG_HOST") or "").split(",")
    paths = [path for path in hosts if path.endswith(SOCKET_END)]
    named = port or _number(told(known.args, known.env, PORT, "LLAMA_ARG_PORT"))
    if seen is None:
        if paths:
            _unclear(haul, "its socket may not be looked up by this user", "run it with sudo")
            return None, False
        return Listener("127.0.0.1", named or DEFAULT_PORT), False
    if port is None:
        path = _socket(unix_listeners(server.pid), paths)
        if path is not None and (paths or not seen):
            return _at(haul, server, path), True
    fitting = [one for one in seen if one.port == named] or (seen if port is None and len(seen) == 1 else [])
    if len(fitting) == 1:
        return fitting[0], True
    ports = ", ".join(str(one.port) for one in seen) or "none"
    _unclear(haul, f"which TCP port it serves is not clear (it has: {ports})", "--port N")
    return None, False


def _socket(seen: Sequence[str], named: Sequence[str]) -> str | None:
    """Its unix socket: the one its settings name, or its only one that is called like one."""
    fitting = [path for path in seen if path in named] or [path for path in seen if path.endswith(SOCKET_END)]
    return fitting[0] if len(fitting) == 1 else None


def _at(haul: Haul, server: Server, path: str) -> Listener | None:
    reached = reachable_path(server.pid, path)
    if reached is None:
        why = f"its unix socket {path} is gone or cannot be reached from here"
        _unclear(
            haul,
            why,
            f"curl -sm 5 --unix-socket {quoted(path)} http://localhost/props, where the server runs",
        )
        return None
    return Listener("127.0.0.1", 0, reached)


def _unclear(haul: Haul, why: str, command: str) -> None:
    haul.gap(UNANSWERED, why, command)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and 0 < int(text[:6]) < 65536 else None
