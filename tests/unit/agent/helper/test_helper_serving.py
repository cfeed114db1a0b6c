"""The helper among clients of every kind: it serves the sound ones and outlives the others."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Incarnation
from collector.agent.helper import serving
from collector.agent.helper.acts import Answer
from collector.agent.helper.link import HelperError, HelperLink, about
from collector.agent.helper.protocol import KMSG, Request, request_bytes
from collector.agent.helper.remote import HelpedPlace, log_places
from collector.agent.helper.remote_discovery import RemoteDiscovery
from collector.agent.helper.serving import MAX_CLIENTS, Helper, listen
from collector.discovery.look import mark_of
from collector.discovery.model import Changes, Ended, Found
from collector.sources.stream import StreamHealth

TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Discovery, told by the test."""

    def __init__(self, *founds: Found) -> None:
        self.servers = list(founds)
        self.next = Changes()
        self.pending, self.dumping = False, frozenset[int]()

    def fileno(self) -> None:
        return None

    def poll(self) -> Changes:
        told, self.next = self.next, Changes()
        return told

    def known(self) -> tuple[Found, ...]:
        return tuple(self.servers)

    def health(self) -> StreamHealth:
        return StreamHealth()

    def close(self) -> None:
        return


def myself(**more: object) -> Found:
    mark = mark_of(os.getpid())
    assert mark is not None
    who = Incarnation(pid=os.getpid(), start_time=mark.start / TICKS, boot_id="b")
    return Found(who, "/opt/llama-server", "standalone", **more)  # type: ignore[arg-type]


class Running:
    def __init__(self, path: Path, watch: Watch, groups: frozenset[int]) -> None:
        self.path, self.watch = path, watch
        self.helper = Helper(
            listen(path, os.getgid()), watch, groups=groups, kmsg=lambda: Answer({"ok": True})
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.helper.step(0.01)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self.helper.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def begin(*founds: Found, groups: frozenset[int] | None = None) -> Running:
        wanted = frozenset({os.getgid()}) if groups is None else groups
        made.append(Running(tmp_path / "h.sock", Watch(*founds), wanted))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def raw(running: Running) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(10)
    link.connect(str(running.path))
    return link


def gone(link: socket.socket) -> bool:
    try:
        return link.recv(100) == b""
    except ConnectionError:
        return True


def serves(running: Running) -> bool:
    link = HelperLink(running.path)
    try:
        return link.ask(Request(KMSG))[0] == {"ok": True}
    finally:
        link.close()


@pytest.mark.parametrize("said", [b"\xff" * 500, b"x" * 100_000, b'{"op":', b'{"op":"exec"}', b"[" * 1000])
def test_garbage_and_halves_cost_their_sender_the_connection_and_nobody_else(start, said):
    running = start()
    link = raw(running)
    link.send(said)
    assert gone(link)
    assert serves(running)


def test_a_stranger_is_sent_away(start, monkeypatch):
    # GIVEN a peer that is neither root nor of the group, by the kernel's word
    running = start()

    class Peer:
        size, unpack = 12, staticmethod(lambda _: (1, 12345, 12345))

    monkeypatch.setattr(serving, "_PEER", Peer)
    assert gone(raw(running))
    monkeypatch.undo()
    assert serves(running)


def test_a_client_that_never_reads_is_let_go(start, monkeypatch):
    monkeypatch.setattr(serving, "MAX_WAITING", 50)
    running = start(myself())
    link = raw(running)
    link.send(request_bytes(Request("subscribe")))
    big = myself(args=("x" * 8000,) * 8)
    until = 2000
    while running.helper.clients != 0 or until == 2000:
        running.watch.next = Changes(changed=(big,) * 20)
        until -= 1
        assert until, "it is still kept"
        threading.Event().wait(0.005)
    assert serves(running)
    link.close()


def test_more_clients_than_there_is_room_for(start):
    running = start()
    links = [raw(running) for _ in range(MAX_CLIENTS)]
    for link in links:
        link.send(request_bytes(Request(KMSG)))
        assert b"ok" in link.recv(100)
    assert gone(raw(running))
    for link in links:
        link.close()
    while running.helper.clients:
        threading.Event().wait(0.005)
    assert serves(running)


def test_a_server_is_named_by_its_number_and_its_start(start):
    me = myself()
    running = start(me)
    link = HelperLink(running.path)
    assert link.ask(about("waits", me, word="owned"))[0]["inodes"] is not None
    # WHEN the number is another life's, or is no known server's
    other = Request("waits", me.pid, (me.incarnation.start_time or 0) + 1, 0, "owned")
    for request in (other, Request("waits", 1, 0.0, 0, "owned")):
        with pytest.raises(HelperError, match="no such server"):
            link.ask(request)
    link.close()


def test_pid_reuse_between_two_looks_of_discovery_is_seen(start):
    # GIVEN discovery still holds a life that this number no longer lives
    me = myself()
    old = Found(me.incarnation.model_copy(update={"start_time": 1.0}), me.exe, me.role)
    running = start(old)
    link = HelperLink(running.path)
    with pytest.raises(HelperError, match="no such server"):
        link.ask(about("log", old, number=1))
    link.close()


def test_only_a_file_that_the_server_itself_writes_is_opened(start, tmp_path):
    log, secret = tmp_path / "server.log", tmp_path / "secret"
    log.write_text("a line\n")
    secret.write_text("no line of a server\n")
    with log.open("a"), secret.open():
        mine, other = myself(log_file=str(log)), myself(log_file=str(secret))
        running = start(mine)
        link = HelperLink(running.path)
        place = next(
            each for each in log_places(link, mine) if isinstance(each, HelpedPlace) and not each.number
        )
        descriptor = place.open()
        assert os.read(descriptor, 100) == b"a line\n"
        with pytest.raises(OSError):  # noqa: PT011  whatever its number: it is open for reading alone
            os.write(descriptor, b"x")
        os.close(descriptor)
        # WHEN the command line names a file that the process merely reads, or does not have open
        running.watch.servers = [other]
        link.close()  # a new connection's turn comes after the next look of discovery
        assert not [each for each in log_places(link, other) if getattr(each, "number", None) == 0]
        link.close()


def settled(remote: RemoteDiscovery, condition: Callable[[Changes], bool]) -> Changes:
    for _ in range(1000):
        told = remote.poll()
        if condition(told):
            return told
        threading.Event().wait(0.01)
    raise AssertionError("it was not told")


def test_changes_come_through_once_and_a_restarted_helper_doubles_nothing(start, tmp_path):
    me = myself()
    running = start(me)
    remote = RemoteDiscovery(running.path, local=Watch)  # type: ignore[arg-type]
    assert settled(remote, lambda told: bool(told.born)).born == (me,)
    assert remote.health().state == "ok"
    # WHEN the helper goes: nobody ends by that, and health says so
    running.close()
    for _ in range(20):
        assert remote.poll() == Changes()
    assert remote.health().state == "degraded"
    assert remote.known() == (me,)
    # AND comes back, the server still there
    running = start(me)
    settled(remote, lambda _: remote.health().state == "ok")
    assert remote.poll() == Changes()
    # AND the server ends
    running.watch.servers = []
    running.watch.next = Changes(ended=(Ended(me, 5.0, 6.0, None, 11, True),))
    told = settled(remote, lambda told: bool(told.ended)).ended
    assert [(each.found, each.signal, each.dumped) for each in told] == [(me, 11, True)]
    assert remote.known() == ()
    remote.close()


def test_a_server_that_ended_while_the_helper_was_away_has_ended_without_a_code(start):
    me = myself()
    running = start(me)
    remote = RemoteDiscovery(running.path, local=Watch)  # type: ignore[arg-type]
    settled(remote, lambda told: bool(told.born))
    running.close()
    remote.poll()
    start()
    (ended,) = settled(remote, lambda told: bool(told.ended)).ended
    assert (ended.found, ended.signal, ended.code) == (me, None, None)
    remote.close()


def test_without_a_helper_the_agent_sees_what_it_can(tmp_path):
    me = myself()
    local = Watch(me)
    local.next = Changes(born=(me,))
    remote = RemoteDiscovery(tmp_path / "nobody.sock", local=lambda: local)  # type: ignore[arg-type,return-value]
    assert remote.poll().born == (me,)
    assert "does not answer" in (remote.health().problem or "")
