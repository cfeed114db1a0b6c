"""Stranded requests and innocent traffic in one run, on real servers: recall and false alarms together.

The patience is 3 s here; the agent's default is 10 s. What is innocent is what looks idle, slow or stuck to
somebody who watches only one thing: open connections, quiet clients, long work.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collector.agent.probing_pool import Prober
from collector.agent.states.model import Knobs
from collector.agent.states.watch import StateWatch, real_senses
from collector.discovery.describe import Describer
from collector.discovery.model import Found
from collector.lab.faults import d3_stranded
from collector.lab.faults.provoked import Stage
from collector.lab.reference.client import Request
from collector.lab.reference.conditions import asleep_by_props
from collector.lab.reference.environments import prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec
from collector.sources.target import Target

pytestmark = pytest.mark.real

VERSION = "2026.10.11549"
PATIENCE, HUNG, EVERY = 3.0, 6.0, 0.5
WATCHED = 9.0  # seconds beside innocent traffic: past both patiences
DEADLINE = 30.0
LONG = {"prompt": ["a"] * 400, "n_predict": 200, "ignore_eos": True}
HEAD = "POST /completion HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


@dataclass
class Watch:
    """The agent's watch over the test's own servers alone, in a thread of its own."""

    watch: StateWatch = field(
        default_factory=lambda: StateWatch(knobs=Knobs(PATIENCE, HUNG), senses=real_senses())
    )
    prober: Prober = field(default_factory=lambda: Prober(every=1.0))
    path: dict[int, list[tuple[float, str]]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def add(self, server: RunningServer) -> None:
        made = Describer().describe(server.pid, lambda pid: None)
        assert made is not None
        found: Found = made.found
        with self._guard:
            self.watch.born(found)
            self.prober.want(found, Target(server.port, pid=server.pid))

    def run(self) -> None:
        while not self._stop.wait(EVERY):
            with self._guard:
                self._tick()

    def _tick(self) -> None:
        for answer in self.prober.answers():
            for item in answer.evidence:
                made = self.watch.note(item, answer.incarnation)
                if made is not None:
                    self._moved(answer.incarnation.pid, made.mono, made.new)
        for found, made in self.watch.tick():
            self._moved(found.pid, made.mono, made.new)
        for found in self.watch.wanted():
            self.prober.hurry(found.pid)
        self.prober.tick()

    def _moved(self, pid: int | None, mono: float, new: str) -> None:
        self.path.setdefault(pid or 0, []).append((time.monotonic(), new))

    def states(self, server: RunningServer) -> list[str]:
        return [state for _, state in self.path.get(server.pid, [])]

    def close(self) -> None:
        self._stop.set()


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join(10)
        made.prober.close()
        made.watch.close()


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.05)


@contextmanager
def connected(port: int, said: str = "") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(said.encode())
        yield client


@contextmanager
def dripping(port: int) -> Iterator[None]:
    """An upload that comes a byte at a time."""
    stop = threading.Event()

    def drip(client: socket.socket) -> None:
        while not stop.wait(0.4):
            client.sendall(b"a")

    with connected(port, HEAD.format(100_000) + '{"prompt": "') as client:
        thread = threading.Thread(target=drip, args=(client,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def checking(port: int) -> Iterator[None]:
    """A health checker, and a proxy's pooled connection that is used again and again."""
    stop = threading.Event()

    def check() -> None:
        pooled = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        while not stop.wait(0.5):
            pooled.request("GET", "/health")
            pooled.getresponse().read()

    thread = threading.Thread(target=check)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def slow_stream(port: int) -> Iterator[None]:
    """A client that asks for a long stream and takes nothing of it."""
    body = '{"prompt": "a b c", "n_predict": 4000, "stream": true, "ignore_eos": true}'
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(("127.0.0.1", port))
        client.sendall((HEAD.format(len(body)) + body).encode())
        yield


def innocents_asleep(clients: ExitStack, port: int) -> None:
    """What may be connected to a sleeping server without anybody waiting for it."""
    clients.enter_context(connected(port))
    clients.enter_context(connected(port, HEAD.format(100_000) + '{"prompt": "'))  # a stalled upload
    clients.enter_context(dripping(port))
    clients.enter_context(connected(port)).shutdown(socket.SHUT_WR)
    clients.enter_context(checking(port))
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    clients.callback(kept.close)
    kept.request("GET", "/props")
    kept.getresponse().read()


@pytest.mark.parametrize("number", [2, pytest.param(20, marks=pytest.mark.full)])
def test_every_strand_is_found_in_time_and_nobody_else_is_accused(
    watch: Watch, number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = prepare(VERSION)
    spec = ServerSpec(cached_model(), python=python)
    with ReferenceServer(tmp_path) as lab, ExitStack() as clients:
        # GIVEN a sleeping server with every innocent client, and awake ones with long and slow work
        asleep = lab.start(ServerSpec(cached_model(), python=python, idle_seconds=1))
        assert asleep.wait_until(asleep_by_props, 10)
        innocents_asleep(clients, asleep.port)
        streaming = lab.start(spec)
        clients.enter_context(slow_stream(streaming.port))
        clients.enter_context(connected(streaming.port))
        busy = lab.start(ServerSpec(cached_model(), python=python, context=4096))
        work = busy.begin(Request("POST", "/completion", LONG, timeout=120))
        innocent = [asleep, streaming, busy]
        for server in innocent:
            watch.add(server)
        watched_from = time.monotonic()
        # WHEN requests are stranded on others
        for _ in range(number):
            stranded = d3_stranded.provoke(Stage(lab, spec))
            assert stranded.happened, stranded.outcome
            assert stranded.client is not None
            watch.add(stranded.server)
            until(lambda it=stranded: "stranded" in watch.states(it.server), "the strand")  # type: ignore[misc]
            stranded.server.take_down()
        until(lambda: time.monotonic() - watched_from > WATCHED, "the innocent were watched for long enough")
        accused = {state for server in innocent for state in watch.states(server)} & {"stranded", "hung"}
        assert work.answer is None or work.answer.status == 200
    with capsys.disabled():
        print(f"\nstranded: {number} of {number} found; innocent clients accused: {accused or 'none'}")
    # THEN none of them is
    assert not accused
    assert "asleep" in watch.states(asleep)
