"""``ss -tin`` listings: the server's client connections as the kernel counted them.

A stranded request (D3) shows as bytes received, the client's last word later than the server's, and nothing
sent back since. The client's own end of a loopback connection is in the listing too and looks the same once
it has its answer: only the rows whose local end is the server's say anything.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import SocketFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.triage.material import Material
from analyzers.triage.readers.bounded import small_lines

NextId = Callable[[], str]
# Data that came in less than this long ago may be an upload between two packets. Uploads over slow links
# pause for some hundreds of milliseconds (a lost packet's retransmission starts at 200 ms and doubles).
QUIET_MS = 1000
EPHEMERAL = 32768  # first port that Linux gives to clients (ip_local_port_range)
MAX_ROWS = 5000
STATES = "ESTAB|LISTEN|CLOSE-WAIT|FIN-WAIT-1|FIN-WAIT-2|TIME-WAIT|SYN-SENT|SYN-RECV|LAST-ACK|CLOSING|UNCONN"

_HEAD = re.compile(r"^(?:Netid\s+)?(?P<state>State\s+)?Recv-Q\s+Send-Q\s+Local")
_ROW = re.compile(
    rf"^(?:tcp\s+)?(?:(?P<state>{STATES})\s+)?(?P<recv>\d{{1,12}})\s+(?P<send>\d{{1,12}})\s+"
    r"(?P<local>\S{1,80}):(?P<lport>\d{1,5}|\*)\s+(?P<peer>\S{1,80}):(?P<pport>\d{1,5}|\*)(?P<rest>.*)$"
)
_USERS = re.compile(r'users:\(\("(?P<name>[^"]{1,64})",pid=(?P<pid>\d{1,10})')
_FIELD = re.compile(r"\b(bytes_received|bytes_sent|bytes_acked|lastsnd|lastrcv):(\d{1,18})\b")
_SERVER = re.compile(r"llama|xllamacpp", re.IGNORECASE)


@dataclass
class Row:
    """One socket. ``info`` holds the numbers of its TCP_INFO line; bytes, and ms before the listing."""

    line: int
    established: bool
    listening: bool
    recv_queue: int
    send_queue: int
    port: int | None
    peer: str
    peer_port: int | None
    name: str | None
    pid: int | None
    info: dict[str, int] = field(default_factory=dict)


def sockets_material(path: Path, name: str, next_id: NextId) -> Material:
    """The ESTABLISHED connections of the one server in the listing. Raises OSError."""
    rows = list(read_rows(small_lines(path)))
    own, gaps = _servers(rows, name)
    found = tuple(_evidence(row, name, next_id) for row in own)
    if own and not any(row.info for row in own):
        gaps.append(_no_figures(name))
    if own:
        gaps.append(_one_look(own, name))
    return Material(evidence=found, gaps=tuple(gaps))


def read_rows(lines: list[str]) -> Iterator[Row]:
    """Rows with the info lines that follow them. A listing of one state has no column for it."""
    row: Row | None = None
    count = 0
    for number, line in enumerate(lines, 1):
        match = _ROW.match(line) if not line.startswith((" ", "\t")) else None
        if match is None:
            if row is not None:
                _add_info(row, line)
            continue
        if row is not None:
            yield row
        count += 1
        if count > MAX_ROWS:
            return
        row = _row(match, number)
        _add_info(row, match["rest"])
    if row is not None:
        yield row


def _row(match: re.Match[str], number: int) -> Row:
    users = _USERS.search(match["rest"])
    state = match["state"]
    return Row(
        line=number,
        established=state in (None, "ESTAB"),
        listening=state == "LISTEN",
        recv_queue=int(match["recv"]),
        send_queue=int(match["send"]),
        port=_port(match["lport"]),
        peer=match["peer"],
        peer_port=_port(match["pport"]),
        name=users["name"] if users else None,
        pid=int(users["pid"]) if users else None,
    )


def _port(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) < 1 << 16 else None


def _add_info(row: Row, text: str) -> None:
    for key, value in _FIELD.findall(text):
        row.info.setdefault(key, int(value))


def _servers(rows: list[Row], name: str) -> tuple[list[Row], list[Gap]]:
    """The established rows of the server's end; none, and a gap, where that end is not plain."""
    live = [row for row in rows if row.established and row.port is not None and row.peer_port is not None]
    named = [row for row in rows if row.name and _SERVER.search(row.name)]
    if named:
        ports = {row.port for row in named if row.listening}
        own = [row for row in live if row in named and (not ports or row.port in ports)]
        own = [row for row in own if ports or _is_server_end(row)]
        return own, [] if own else [_nobody(name)]
    ports = {row.port for row in rows if row.listening} or {row.port for row in live if _is_server_end(row)}
    if len(ports) == 1:
        return [row for row in live if row.port in ports], []
    return [], [_which(name)] if live else [_nobody(name)]


def _is_server_end(row: Row) -> bool:
    return (row.port or 0) < EPHEMERAL <= (row.peer_port or 0)


def _which(name: str) -> Gap:
    return Gap(
        what=f"the server's connections in {name}",
        why="the listing holds several servers' or only clients' ends, and names no llama-server",
        command="ss -tinp state established '( sport = :PORT )' > sockets.txt",
    )


def _nobody(name: str) -> Gap:
    return Gap(
        what=f"the server's connections in {name}",
        why="no connection is established: nobody was waiting when it was taken",
        command="ss -tinp state established '( sport = :PORT )' > sockets.txt",
    )


def _no_figures(name: str) -> Gap:
    return Gap(
        what=f"who waits for an answer in {name}",
        why="the listing has no TCP figures (bytes_received, lastrcv, lastsnd)",
        command="ss -tinp state established '( sport = :PORT )' > sockets.txt",
    )


def _one_look(own: list[Row], name: str) -> Gap:
    pid = next((str(row.pid) for row in own if row.pid is not None), "PID")
    return Gap(
        what="whether the server makes progress",
        why=f"{name} is one look; two looks with stacks and probes tell a hang from slow work",
        command=f"llama-blackbox collect --live --pid {pid} -o live.tar.zst",
    )


def unanswered(row: Row) -> bool:
    """The client has said something, fell quiet, and nothing went back since. The collector's own rule."""
    info = row.info
    received, heard, spoke = (info.get(key) for key in ("bytes_received", "lastrcv", "lastsnd"))
    if not row.established or row.send_queue or received is None or heard is None:
        return False
    if received - row.recv_queue <= 0 or heard < QUIET_MS:
        return False
    if info.get("bytes_sent", info.get("bytes_acked", 0)) == 0:
        return True
    return spoke is not None and heard < spoke


def _evidence(row: Row, name: str, next_id: NextId) -> Evidence:
    fact = SocketFact(
        peer=peer_name(row.peer, row.peer_port),
        bytes_received=row.info.get("bytes_received", 0 if row.info else None),  # ss leaves a zero out
        bytes_sent=row.info.get("bytes_sent", row.info.get("bytes_acked")),
        last_data_recv_ms=row.info.get("lastrcv"),
        last_data_sent_ms=row.info.get("lastsnd"),
        recv_queue=row.recv_queue,
        send_queue=row.send_queue,
        unanswered=unanswered(row),
    )
    return to_evidence(
        fact,
        id=next_id(),
        source=f"{name}:{row.line}",
        text=_told(fact),
        trust=Trust.KERNEL,
        incarnation=Incarnation(pid=row.pid),
    )


def _told(fact: SocketFact) -> str:
    line = f"client {fact.peer}: {fact.bytes_received or 0} bytes in, {fact.bytes_sent or 0} bytes out"
    if not fact.unanswered:
        return line
    return f"{line}; last word {(fact.last_data_recv_ms or 0) / 1000:.1f} s before, nothing sent back since"


def peer_name(address: str, port: int | None) -> str:
    """Kind of address and port: a report holds no full address of a client."""
    try:
        ip = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return f"unknown:{port}"
    mapped = getattr(ip, "ipv4_mapped", None)
    ip = mapped or ip
    return f"{'loopback' if ip.is_loopback else 'private' if ip.is_private else 'public'}:{port}"
