"""The helper's loop: runs discovery, streams what it sees, serves requests. One thread, everything bounded.

Nothing a client sends or leaves undone ends it or holds it up: a client that does not read is let go.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from collector.agent.helper import protocol
from collector.agent.helper.acts import Answer, RefusedError, act, open_kmsg
from collector.agent.helper.protocol import MAX_REQUEST, Request, parse_request, reply_bytes
from collector.discovery.model import Changes, Found
from collector.sources.stream import StreamHealth

MAX_CLIENTS = 16  # connections; an agent holds one for changes and one for requests
MAX_WAITING = 4096  # packets of a subscriber that does not read: some hundred servers' whole story
MAX_WAITING_BYTES = 8 << 20
# A hundred servers are asked up to three things a second; what is above waits in the client's own socket.
REQUESTS_A_SECOND = 500.0
BURST = 1000.0
REQUESTS_A_TURN = 32  # of one client, before the others have their turn
STEP_SECONDS = 0.25  # between looks of discovery without an event; its own clocks are not finer
HEALTH_SECONDS = 10.0
_PEER = struct.Struct("=iII")


class Watches(Protocol):
    """What the helper needs of Discovery."""

    @property
    def pending(self) -> bool: ...

    @property
    def dumping(self) -> frozenset[int]: ...

    def fileno(self) -> int | None: ...

    def poll(self) -> Changes: ...

    def known(self) -> tuple[Found, ...]: ...

    def health(self) -> StreamHealth: ...


@dataclass
class Client:
    """One connection. ``waiting`` are packets not sent yet, each with its descriptors."""

    link: socket.socket
    subscribed: bool = False
    waiting: deque[tuple[bytes, tuple[int, ...]]] = field(default_factory=deque)
    size: int = 0
    credit: float = BURST
    filled: float = field(default_factory=time.monotonic)

    def put(self, data: bytes, descriptors: tuple[int, ...] = ()) -> bool:
        """False when too much waits already."""
        self.waiting.append((data, descriptors))
        self.size += len(data)
        return len(self.waiting) <= MAX_WAITING and self.size <= MAX_WAITING_BYTES

    def flush(self) -> None:
        """Send what goes without waiting. Raises OSError when the other end is gone."""
        while self.waiting:
            data, descriptors = self.waiting[0]
            try:
                socket.send_fds(self.link, [data], descriptors)
            except (BlockingIOError, InterruptedError):
                return
            self.waiting.popleft()
            self.size -= len(data)
            _close(descriptors)

    def may_ask(self) -> bool:
        """Whether it is its turn: nothing waits to be read by it, and it has not asked too much."""
        now = time.monotonic()
        self.credit = min(BURST, self.credit + (now - self.filled) * REQUESTS_A_SECOND)
        self.filled = now
        return self.credit >= 1 and (self.subscribed or not self.waiting)

    def close(self) -> None:
        for _, descriptors in self.waiting:
            _close(descriptors)
        self.waiting.clear()
        self.link.close()


class Helper:
    """``step`` does one turn. ``groups``: the group ids that may ask, beside root."""

    def __init__(
        self,
        listener: socket.socket,
        watches: Watches,
        *,
        groups: frozenset[int],
        kmsg: Callable[[], Answer] = open_kmsg,
    ) -> None:
        self._listener, self._watches, self._groups, self._kmsg = listener, watches, groups, kmsg
        self._clients: dict[int, Client] = {}
        self._known: dict[int, Found] = {}
        self._dumping: frozenset[int] = frozenset()
        self._health_at = 0.0
        self.refused = 0
        listener.setblocking(False)

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._clients)

    def step(self, timeout: float = STEP_SECONDS) -> None:
        """Wait for something to do, at most ``timeout`` seconds, and do it. Raises nothing for a client."""
        ready = self._wait(0.0 if self._watches.pending else timeout)
        self._look()
        if self._listener.fileno() in ready:
            self._accept()
        for number, client in list(self._clients.items()):
            if number in ready:
                self._turn(client)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self._listener.close()

    def _wait(self, timeout: float) -> set[int]:
        poller = select.poll()
        poller.register(self._listener, select.POLLIN)
        events = self._watches.fileno()
        if events is not None:
            poller.register(events, select.POLLIN)
        for number, client in self._clients.items():
            wanted = (select.POLLIN if client.may_ask() else 0) | (select.POLLOUT if client.waiting else 0)
            poller.register(number, wanted)
        return {number for number, _ in poller.poll(timeout * 1000)}

    # Discovery

    def _look(self) -> None:
        changes = self._watches.poll()
        self._known = {found.pid: found for found in self._watches.known()}
        for data in _told(changes):
            self._publish(data)
        if self._watches.dumping != self._dumping:
            self._dumping = self._watches.dumping
            self._publish(reply_bytes({"dumping": sorted(self._dumping)}))
        if time.monotonic() >= self._health_at:
            self._health_at = time.monotonic() + HEALTH_SECONDS
            self._publish(self._health())

    def _health(self) -> bytes:
        return reply_bytes({"health": asdict(self._watches.health())})

    def _publish(self, data: bytes) -> None:
        for client in list(self._clients.values()):
            if client.subscribed:
                self._send(client, data)

    # Clients

    def _accept(self) -> None:
        with suppress(OSError):
            link, _ = self._listener.accept()
            if len(self._clients) >= MAX_CLIENTS or not self._may(link):
                self.refused += 1
                link.close()
                return
            link.setblocking(False)
            self._clients[link.fileno()] = Client(link)

    def _may(self, link: socket.socket) -> bool:
        """The kernel's word on who connected, unix(7)."""
        _, uid, gid = _PEER.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        return uid == 0 or gid in self._groups

    def _turn(self, client: Client) -> None:
        try:
            client.flush()
            for _ in range(REQUESTS_A_TURN):
                if not client.may_ask():
                    return
                # A byte more than a request: a longer one shows. The kernel drops descriptors sent along.
                data = client.link.recv(MAX_REQUEST + 1)
                if not data:
                    self._drop(client)
                    return
                client.credit -= 1
                self._serve(client, parse_request(data))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._drop(client)

    def _serve(self, client: Client, request: Request | None) -> None:
        if request is None or client.subscribed:
            self._drop(client)  # our own client asks nothing like it
        elif request.op == protocol.SUBSCRIBE:
            self._subscribe(client)
        else:
            answer = self._answered(request)
            self._send(client, reply_bytes(answer.told), answer.descriptors)

    def _answered(self, request: Request) -> Answer:
        try:
            if request.op == protocol.KMSG:
                return self._kmsg()
            return act(request, self._known.get)
        except RefusedError as refusal:
            return Answer({"error": str(refusal)})

    def _subscribe(self, client: Client) -> None:
        """Everything that is known, then each change."""
        self._send(client, reply_bytes({"snapshot": True}))
        for found in self._known.values():
            with suppress(ValueError):
                self._send(client, protocol.found_bytes("born", found))
        self._send(client, reply_bytes({"dumping": sorted(self._dumping)}))
        self._send(client, self._health())
        self._send(client, reply_bytes({"complete": True}))
        client.subscribed = True

    def _send(self, client: Client, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        fits = client.put(data, descriptors)
        try:
            client.flush()
        except OSError:
            fits = False
        if not fits:
            self._drop(client)

    def _drop(self, client: Client) -> None:
        number = client.link.fileno()
        if self._clients.get(number) is client:
            del self._clients[number]
        client.close()


def _told(changes: Changes) -> Iterator[bytes]:
    """Packets in the order in which the agent takes changes."""
    for ended in changes.ended:
        with suppress(ValueError):
            yield protocol.ended_bytes("ended", ended)
    for kind, founds in (("born", changes.born), ("changed", changes.changed)):
        for found in founds:
            with suppress(ValueError):
                yield protocol.found_bytes(kind, found)
    for ended in changes.brief:
        with suppress(ValueError):
            yield protocol.ended_bytes("brief", ended)


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def listen(path: Path, group: int) -> socket.socket:
    """The helper's socket at ``path``, for root and ``group``. Raises OSError."""
    with suppress(FileNotFoundError):
        if path.is_socket():
            path.unlink()
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = os.umask(0o177)
    try:
        link.bind(str(path))
    finally:
        os.umask(before)
    os.chown(path, -1, group)
    path.chmod(0o660)
    link.listen(MAX_CLIENTS)
    return link
