"""The clients of one server from look to look: who waits, since when, and whose turn it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from analyzers.triage.readers.sockets import peer_name
from collector.agent.states.model import Crowd, Waiting
from collector.sources.sockdiag import TcpSample
from collector.sources.sockets import unanswered

# What the threads do is looked at again this often while a connection's bytes stay the same: it costs
# some milliseconds where a server has hundreds of threads.
RECHECK_SECONDS = 5.0
UNSEEN = "whether it still waits for the rest of a request is not known: its threads may not be looked into"
Sockets = Callable[[], "frozenset[int] | None"]


@dataclass(frozen=True)
class _Checked:
    """Of one connection with these bytes: the server's turn or the client's, seen at ``mono``."""

    received: int | None
    sent: int | None
    mono: float
    servers: bool


@dataclass
class Clients:
    """``owned`` and ``being_read`` give socket inodes (collector.sources.waits); both only for candidates."""

    owned: Sockets
    being_read: Sockets
    _bytes: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    _checked: dict[int, _Checked] = field(default_factory=dict)
    _unsure: str | None = None

    def look(self, samples: Sequence[TcpSample], mono: float, patience: float) -> Crowd:
        """What the connections of this port show. ``patience``: seconds until a client counts as stuck."""
        waiting = [tcp for tcp in samples if unanswered(tcp)]
        stuck = self._stuck([tcp for tcp in waiting if _quiet(tcp) >= patience], mono)
        crowd = Crowd(
            mono,
            len(samples),
            self._moved(samples),
            tuple(_waiting(tcp, mono) for tcp in waiting),
            tuple(_waiting(tcp, mono) for tcp in stuck),
            self._unsure if stuck else None,
        )
        self._bytes = {tcp.cookie: (tcp.bytes_received, tcp.bytes_sent) for tcp in samples}
        return crowd

    def _moved(self, samples: Sequence[TcpSample]) -> bool:
        """A stream or an upload under way. Bytes in both directions are an exchange, such as a health check,
        which a hung server's HTTP threads still answer."""
        for tcp in samples:
            received, sent = self._bytes.get(tcp.cookie, (tcp.bytes_received, tcp.bytes_sent))
            if (received != tcp.bytes_received) is not (sent != tcp.bytes_sent):
                return True
        return False

    def _stuck(self, patient: Sequence[TcpSample], mono: float) -> list[TcpSample]:
        due = [tcp for tcp in patient if not self._is_fresh(tcp, mono)]
        if due:
            self._check(due, mono)
        here = {tcp.cookie for tcp in patient}
        self._checked = {cookie: seen for cookie, seen in self._checked.items() if cookie in here}
        return [tcp for tcp in patient if self._checked[tcp.cookie].servers]

    def _is_fresh(self, tcp: TcpSample, mono: float) -> bool:
        seen = self._checked.get(tcp.cookie)
        return (
            seen is not None
            and (seen.received, seen.sent) == (tcp.bytes_received, tcp.bytes_sent)
            and mono - seen.mono < RECHECK_SECONDS
        )

    def _check(self, due: Sequence[TcpSample], mono: float) -> None:
        mine, read = self.owned(), self.being_read()
        self._unsure = UNSEEN if read is None else None
        for tcp in due:
            servers = (mine is None or tcp.inode in mine) and (read is None or tcp.inode not in read)
            self._checked[tcp.cookie] = _Checked(tcp.bytes_received, tcp.bytes_sent, mono, servers)


def _quiet(tcp: TcpSample) -> float:
    return (tcp.last_data_recv_ms or 0) / 1000


def _waiting(tcp: TcpSample, mono: float) -> Waiting:
    peer = peer_name(tcp.peer_address, tcp.peer_port) or "a client"
    return Waiting(tcp.cookie, _quiet(tcp), peer, socket_id(tcp.cookie, mono))


def socket_id(cookie: int, mono: float) -> str:
    """The id that ``to_socket_evidence`` gives to the same look at the same connection."""
    return f"socket-{cookie:x}-{int(mono * 1000)}"
