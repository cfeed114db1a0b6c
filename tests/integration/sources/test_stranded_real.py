"""A request stranded on a real server: found, shown by its threads, released; and who is not reported."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzers.contracts.facts import ActionFact, ProbeFact, SocketFact, StackFact, fact_of
from collector.actions.release import release_stranded
from collector.actions.snapshot import snapshot
from collector.lab.reference.client import Pending, Request
from collector.lab.reference.conditions import asleep_by_props
from collector.lab.reference.environments import prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec
from collector.sources.modelfile import look_at_file
from collector.sources.procfs import Process
from collector.sources.stranded import find_stranded
from collector.sources.target import Target

pytestmark = pytest.mark.real

VERSION = "2026.10.11549"
PATIENCE = 2.0
TRIES = 6
# Converting the schema and tokenising 200 prompts holds the HTTP thread between barrier and post for tens
# of milliseconds; a GET /metrics in that window makes the loop test its idle limit and sleep at once.
SLOW_TO_POST = {
    "prompt": ["a"] * 200,
    "n_predict": 1,
    "json_schema": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(300)}},
}
BUSY = {"prompt": ["a"] * 400, "n_predict": 200, "ignore_eos": True}


@pytest.fixture(scope="module")
def python() -> Path:
    given = os.environ.get("LLAMA_BLACKBOX_TEST_SERVER")
    return Path(given) if given else prepare(VERSION)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    path.write_bytes(cached_model().read_bytes())
    return path


@dataclass
class Scene:
    server: RunningServer
    target: Target
    client: Pending


@pytest.fixture(scope="module")
def scene(python: Path, model: Path) -> Iterator[Scene]:
    """A server that holds a stranded request."""
    with ReferenceServer() as reference:
        for _ in range(TRIES):
            server = reference.start(ServerSpec(model=model, python=python, idle_seconds=2))
            client = strand(server)
            if client is not None:
                yield Scene(server, Target(server.port, pid=server.pid), client)
                return
            server.take_down()
        pytest.fail(f"no request was stranded in {TRIES} tries")


def strand(server: RunningServer) -> Pending | None:
    start = time.monotonic()
    pause_until(start + 1.6)
    server.get("/metrics")
    pause_until(start + 2.1)
    client = server.begin(Request("POST", "/completion", SLOW_TO_POST, timeout=120))
    pause_until(start + 2.12)
    server.get("/metrics", timeout=2)
    asleep = server.wait_until(lambda each: each.finished or asleep_by_props(each), 3)
    answered = client.wait(0.5) is not None
    return client if asleep and not answered and not server.finished else None


def pause_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def wakes(server: RunningServer) -> int:
    return server.transitions("exiting sleeping state")


def test_a_stranded_request_is_found_and_the_server_sleeps_on(scene: Scene) -> None:
    # GIVEN a sleeping server that holds a request
    before = wakes(scene.server)

    # WHEN it is looked at twice
    found = find_stranded(scene.target, PATIENCE)

    # THEN exactly that client is found, by socket figures and a positive word on sleep, without a gap
    assert found is not None
    assert len(found.connections) == 1
    assert found.quiet_seconds >= PATIENCE
    assert found.gaps == ()
    sockets = [fact for fact in (fact_of(e, SocketFact) for e in found.evidence) if fact]
    probes = [fact for fact in (fact_of(e, ProbeFact) for e in found.evidence) if fact]
    assert [fact.unanswered for fact in sockets] == [True, True]
    assert all(fact.bytes_sent == 0 and (fact.bytes_received or 0) > 1000 for fact in sockets)
    assert [fact.is_sleeping for fact in probes] == [True, True]
    assert {e.incarnation.pid for e in found.evidence} == {scene.server.pid}
    # AND nothing woke
    assert wakes(scene.server) == before
    assert scene.client.waiting


def test_a_live_snapshot_shows_the_loop_asleep_under_a_waiting_request(scene: Scene) -> None:
    # GIVEN the same server
    before = wakes(scene.server)

    # WHEN its stacks are taken
    taken = snapshot(scene.server.pid)

    # THEN the loop waits without a time-out and the handler waits in the result queue
    assert taken.gaps == ()
    stacks = [fact for fact in (fact_of(e, StackFact) for e in taken.evidence) if fact]
    assert all(stack.rung == "live" and stack.live for stack in stacks)
    loop = the_stack(stacks, "server_queue::start_loop")
    assert any("pthread_cond_wait" in name for name in loop)
    waiting = the_stack(stacks, "server_response::recv_with_timeout")
    assert any("server_response_reader::wait_for_all" in name for name in waiting)
    assert any("server_routes::handle_completions_impl" in name for name in waiting)
    # AND the server goes on as it was
    action = fact_of(taken.evidence[-1], ActionFact)
    assert action is not None
    assert action.outcome == "taken"
    with Process(scene.server.pid) as process:
        assert process.state() in "SR"
        assert process.tracer() == 0
    assert wakes(scene.server) == before


def the_stack(stacks: list[StackFact], function: str) -> list[str]:
    named = [[frame.function or "" for frame in stack.frames] for stack in stacks]
    return next(names for names in named if any(function in name for name in names))


def test_no_release_over_a_missing_model_file(scene: Scene, tmp_path: Path) -> None:
    # GIVEN a model file that was there at the last look and is gone now
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    seen = look_at_file(str(file))
    file.unlink()
    found = find_stranded(scene.target, PATIENCE)
    assert found is not None

    # WHEN the release is ordered
    action = fact_of(release_stranded(found, files=[seen]), ActionFact)

    # THEN it is refused, and the server neither woke nor died
    assert action is not None
    assert action.outcome == "refused"
    assert scene.client.waiting
    assert not scene.server.finished


def test_a_release_gets_the_client_its_answer(scene: Scene) -> None:
    # GIVEN a stranded request and a sound model file
    found = find_stranded(scene.target, PATIENCE)
    assert found is not None

    # WHEN the release is ordered, and once more
    first = fact_of(release_stranded(found), ActionFact)
    answer = scene.client.wait(30)
    second = fact_of(release_stranded(found), ActionFact)

    # THEN the client has its answer, and the second order finds nothing to do
    assert first is not None
    assert first.outcome == "released"
    assert answer is not None
    assert answer.status == 200
    assert second is not None
    assert second.outcome == "nothing-to-release"


UPLOAD = b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + b'{"prompt":"'


@contextmanager
def connected(port: int, first_words: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(first_words)
        yield client


@contextmanager
def dripping(port: int) -> Iterator[None]:
    stop = threading.Event()

    def drip(client: socket.socket) -> None:
        while not stop.wait(0.4):
            client.sendall(b"a")

    with connected(port, UPLOAD) as client:
        thread = threading.Thread(target=drip, args=(client,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def test_innocent_clients_of_a_sleeping_server_are_not_reported(python: Path, model: Path) -> None:
    # GIVEN a sleeping server: a silent client, an answered one, one half closed, a stalled and a slow upload
    with ReferenceServer() as reference, ExitStack() as clients:
        server = reference.start(ServerSpec(model=model, python=python, idle_seconds=1))
        assert server.wait_until(asleep_by_props, 10)
        port = server.port
        clients.enter_context(connected(port))
        clients.enter_context(connected(port, UPLOAD))
        clients.enter_context(dripping(port))
        clients.enter_context(connected(port)).shutdown(socket.SHUT_WR)
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        kept.request("GET", "/props")
        kept.getresponse().read()
        pause_until(time.monotonic() + PATIENCE)

        # WHEN it is looked at, with its threads in view and without
        seen = find_stranded(Target(port, pid=server.pid), PATIENCE)
        unseen = find_stranded(Target(port), PATIENCE)

        # THEN nobody is reported; only without the threads does the stalled upload look stranded, and says so
        assert seen is None
        assert unseen is None or (len(unseen.connections) == 1 and "upload" in unseen.gaps[0].what)
        assert wakes(server) == 0


def test_an_awake_busy_server_is_not_reported(python: Path, model: Path) -> None:
    # GIVEN an awake server that works on a long request
    with ReferenceServer() as reference:
        server = reference.start(ServerSpec(model=model, python=python, idle_seconds=60))
        client = server.begin(Request("POST", "/completion", BUSY, timeout=120))
        assert client.wait(2.5) is None

        # WHEN / THEN
        assert find_stranded(Target(server.port, pid=server.pid), PATIENCE) is None
        assert client.waiting
