"""A poke is sent on a standing connection, and its answer is dated; nothing it meets can stop a trial."""

import socket
import threading
import time
from types import SimpleNamespace

import pytest

from collector.lab.faults.pinning import Poke, entered_since
from collector.lab.reference.output import Line
from collector.lab.reference.ports import free_port

DEADLINE = 5.0


class Peer:
    """A listener that takes one connection, reads one request and answers with what it was given."""

    def __init__(self, answer):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.asked = b""
        self.accepted = threading.Event()
        self.done = threading.Event()
        threading.Thread(target=self._serve, args=(answer,), daemon=True).start()

    def _serve(self, answer):
        with self._socket, self._socket.accept()[0] as peer:
            self.accepted.set()
            self.asked = peer.recv(4096)
            if answer:
                peer.sendall(answer)
        self.done.set()


def server(port, api_key=None):
    return SimpleNamespace(port=port, spec=SimpleNamespace(api_key=api_key))


def until(condition):
    end = time.monotonic() + DEADLINE
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def test_the_connection_stands_before_the_poke_is_sent():
    # GIVEN
    peer = Peer(b"HTTP/1.1 200 OK\r\n\r\n")
    poke = Poke(server(peer.port))
    assert peer.accepted.wait(DEADLINE)
    assert peer.asked == b""
    # WHEN
    moment = poke.fire()
    # THEN it is dated when it was handled
    assert until(lambda: poke.answered is not None)
    assert poke.answered >= moment
    assert peer.asked.startswith(b"GET /metrics HTTP/1.1\r\n")


def test_the_key_goes_with_it():
    peer = Peer(b"HTTP/1.1 200 OK\r\n\r\n")
    Poke(server(peer.port, "secret")).fire()
    assert peer.done.wait(DEADLINE)
    assert b"Authorization: Bearer secret\r\n" in peer.asked


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 501 Not Implemented\r\n\r\n", b"\x00garbage"])
def test_only_a_200_says_that_the_loop_handled_it(answer):
    peer = Peer(answer)
    poke = Poke(server(peer.port))
    poke.fire()
    assert peer.done.wait(DEADLINE)
    assert poke.answered is None


def test_a_server_that_is_gone_stops_nothing():
    poke = Poke(server(free_port()))
    assert poke.fire() <= time.monotonic()
    assert poke.answered is None
    poke.close()


def lines(*given):
    made = [Line(text, 0.0, mono) for text, mono in given]
    return SimpleNamespace(output=SimpleNamespace(lines=lambda: made))


def test_the_first_sleep_line_after_a_moment_is_found_and_its_echo_is_not():
    log = lines(
        ("que    start_loop: entering sleeping state", 1.0),
        ("srv    x: server is entering sleeping state", 1.1),
        ("que    start_loop: exiting sleeping state", 2.0),
        ("srv    x: server is entering sleeping state", 2.9),
        ("que    start_loop: entering sleeping state", 3.0),
        ("que    start_loop: entering sleeping state", 4.0),
    )
    assert entered_since(log, 1.0).mono == 3.0
    assert entered_since(log, 0.5).mono == 1.0
    assert entered_since(log, 4.0) is None
