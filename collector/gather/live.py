"""A hang that is still hanging: two looks at one server, some seconds apart, before anyone restarts it.

Nothing is woken, stopped for longer than a snapshot's milliseconds, or kept awake. Which routes may be asked
is the catalogue's word on the build; of an unknown build only /health is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from analyzers.catalogue.loader import known_defects
from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import SocketFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from collector.actions.snapshot import snapshot
from collector.actions.twice import BETWEEN_SECONDS
from collector.gather.address import Named, target_of
from collector.gather.haul import Haul
from collector.gather.living import Known
from collector.gather.network import unix_clients, unix_listeners, within
from collector.gather.pythonstacks import python_stacks
from collector.gather.servers import Server
from collector.sources.looks import look
from collector.sources.probes import Probe, probe_health, probe_metrics, probe_props
from collector.sources.procfs import read_incarnation
from collector.sources.sockdiag import TcpSample, read_connections
from collector.sources.sockets import to_socket_evidence
from collector.sources.target import Target
from collector.sources.waits import owned_sockets, sockets_being_read

PROBES: dict[str, Callable[..., Probe]] = {"GET /health": probe_health, "GET /props": probe_props}
MAX_CLIENTS = 2000  # evidence lines of one look; a server has tens of clients
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Ways:
    """How to look. ``seconds`` between the looks, ``timeout`` of each probe; ``metrics`` pokes the loop and
    resets other scrapers' rates, so only on request; ``stacks`` stop each thread for milliseconds."""

    seconds: float = BETWEEN_SECONDS
    timeout: float = 2.0
    stacks: bool = True
    metrics: bool = False
    port: int | None = None
    prefix: str | None = None
    api_key: str | None = field(default=None, repr=False)
    pause: Pause = time.sleep


def gather_live(haul: Haul, server: Server, known: Known, ways: Ways) -> None:
    """Both looks into ``haul``; what could not be seen becomes gaps."""
    target = target_of(haul, server, known, Named(ways.port, ways.prefix, ways.api_key), ways.timeout)
    routes = safe_routes(known)
    if target is not None and "GET /props" not in routes:
        haul.gap(
            "whether it sleeps",
            "its build is not known, and only /health is known to leave every build alone",
            target.curl("/props"),
        )
    if ways.metrics and not metrics_leave_it_asleep(known):
        why = "GET /metrics wakes a sleeping server of some builds that this one may be, so it was not asked"
        haul.gap("the counters", why, "curl -sm 5 http://HOST:PORT/metrics, once it may wake")
        ways = replace(ways, metrics=False)
    _look(haul, server, target, routes, ways)
    ways.pause(ways.seconds)
    if read_incarnation(server.pid) != server.incarnation:
        command = f"llama-blackbox collect --pid {server.pid} -o death.tar.zst"
        haul.gap("a second look", "the process ended while it was looked at", command)
        return
    _look(haul, server, target, routes, ways)
    if server.hosted:
        _python(haul, server)


def safe_routes(known: Known) -> tuple[str, ...]:
    """Routes that leave every build alone that this one can be; only /health of one that nobody knows."""
    catalogue = known_defects()
    allowed = [set(catalogue.safe_probes(build)) for build in _builds(known)]
    return tuple(route for route in PROBES if all(route in each for each in allowed))


def metrics_leave_it_asleep(known: Known) -> bool:
    """Whether GET /metrics wakes no build that this one can be."""
    found = [known_defects().probe_safety(build, "GET /metrics") for build in _builds(known)]
    return all(each is not None and not each.wakes for each in found)


def _builds(known: Known) -> tuple[int | None, ...]:
    """The build, or the ends of the range it must lie in."""
    return (known.build,) if known.build is not None else (known.first, known.last or known.first)


def _look(haul: Haul, server: Server, target: Target | None, routes: tuple[str, ...], ways: Ways) -> None:
    """Stacks first: a probe that times out must not let a transition pass unseen."""
    seen = look(server.pid)
    haul.facts([seen] if seen is not None else [])
    if ways.stacks:
        taken = snapshot(server.pid)
        haul.facts(taken.evidence)
        haul.missed(taken.gaps)
    if target is None:
        return
    try:
        found, gaps = within(server.pid, lambda: _asked(server, target, routes, ways))
    except PermissionError:
        command = f"sudo nsenter -t {server.pid} -n ss -tinp state established '( sport = :{target.port} )'"
        why = "it runs in a network namespace of its own, which this user may not enter"
        haul.gap("its clients and its answers", why, command)
        return
    haul.facts(found)
    haul.missed(gaps)


def _asked(
    server: Server, target: Target, routes: tuple[str, ...], ways: Ways
) -> tuple[list[Evidence], list[Gap]]:
    """Probes and clients."""
    asks = [PROBES[route] for route in routes] + ([probe_metrics] if ways.metrics else [])
    probes = [ask(target, timeout=ways.timeout, incarnation=server.incarnation) for ask in asks]
    gaps = [_refused(target) for one in probes if one.fact.status in (401, 403)][:1]
    clients, missed = _clients(server, target)
    return [*(one.evidence for one in probes), *clients], [*gaps, *missed]


def _refused(target: Target) -> Gap:
    return Gap(
        what="whether it sleeps",
        why="the server demands its API key",
        command="--api-key-file FILE, or: " + target.curl("/props", "-H 'Authorization: Bearer KEY'"),
    )


def _clients(server: Server, target: Target) -> tuple[list[Evidence], list[Gap]]:
    wall, mono = time.time(), time.monotonic()
    if target.socket is not None:
        return _unix_clients(server, target.socket, wall, mono)
    try:
        everyone = read_connections(target.port)
    except UserError as refused:
        return [], [Gap(what="the server's clients", why=refused.what, command=refused.remedy)]
    mine, read = owned_sockets(server.pid), sockets_being_read(server.pid)
    own = [tcp for tcp in everyone if mine is None or tcp.inode in mine][:MAX_CLIENTS]
    facts = [_client(tcp, target, server, wall, mono, read) for tcp in own]
    if read is not None or not own:
        return facts, []
    command = f"sudo cat /proc/{server.pid}/task/*/syscall"
    return facts, [
        Gap(
            what="whether a request is still arriving",
            why="its threads may not be looked into",
            command=command,
        )
    ]


def _unix_clients(server: Server, socket: str, wall: float, mono: float) -> tuple[list[Evidence], list[Gap]]:
    """Clients of a unix socket: how many there are is all that the kernel tells."""
    bound = next((path for path in unix_listeners(server.pid) if socket.endswith(path)), socket)
    number = min(unix_clients(server.pid, bound), MAX_CLIENTS)
    made = [
        to_evidence(
            SocketFact(peer="unix socket"),
            id=f"socket-unix-{at}-{int(mono * 1000)}",
            source=f"/proc/{server.pid}/net/unix",
            text="a client is connected to the unix socket; whether it waits for an answer is not told",
            trust=Trust.KERNEL,
            wall=wall,
            mono=mono,
            incarnation=server.incarnation,
        )
        for at in range(number)
    ]
    why = "the kernel keeps no times and byte counts of a unix socket's clients"
    command = f"ask the clients; sudo ss -xp | grep pid={server.pid},"
    gap = Gap(what=f"whether one of {number} clients waits", why=why, command=command)
    return made, [gap] if made else []


def _client(
    tcp: TcpSample, target: Target, server: Server, wall: float, mono: float, read: frozenset[int] | None
) -> Evidence:
    """One client. A request of which the server still waits for the rest is not one it owes an answer to."""
    made = to_socket_evidence(tcp, target, wall=wall, mono=mono, incarnation=server.incarnation)
    if not made.data.get("unanswered") or read is None or tcp.inode not in read:
        return made
    text = f"{made.text.partition(';')[0]}; the server still waits for the rest of its request"
    return made.model_copy(update={"data": {**made.data, "unanswered": False}, "text": text})


def _python(haul: Haul, server: Server) -> None:
    text, gap = python_stacks(server.pid)
    haul.missed([gap] if gap else [])
    haul.context("python-stacks.txt", text)


def with_key(ways: Ways, text: str) -> Ways:
    """``ways`` with the key from the first line of a key file. Raises UserError when it is empty."""
    key = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not key:
        raise UserError(
            "the file is empty", where="--api-key-file", remedy="give the file that holds the key"
        )
    return replace(ways, api_key=key)
