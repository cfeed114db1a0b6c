"""Snapshots of real servers while they work: every answer right, every stack whole, nobody left stopped."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzers.contracts.facts import ActionFact, StackFact, fact_of
from collector.actions.hosted import snapshot_hosted
from collector.actions.snapshot import snapshot
from collector.actions.stopbench import compare
from collector.lab.native.build import Recipe, find_build
from collector.lab.reference.client import Request
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec
from collector.sources.procfs import Process

pytestmark = pytest.mark.real

SNAPSHOTS = 50
HTTP_THREADS = 16  # with the loop, the logger and the others some twenty threads
ASKED = {"prompt": "the quick brown fox", "n_predict": 200, "temperature": 0, "seed": 1, "ignore_eos": True}


def spec_of(kind: str) -> ServerSpec:
    if kind == "hosted":
        return ServerSpec(cached_model(), python=prepare(UNLOAD_VERSION), http_threads=HTTP_THREADS)
    build = find_build(Recipe(11368))
    if build is None:
        pytest.skip("run: llama-blackbox reference build --build 11368")
    return ServerSpec(cached_model(), binary=build.binary, http_threads=HTTP_THREADS)


@pytest.fixture(scope="module", params=["hosted", "native"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with ReferenceServer(tmp_path_factory.mktemp("lab")) as lab:
        yield lab.start(spec_of(request.param))


def content(body: bytes) -> str:
    return str(json.loads(body)["content"])


def test_requests_in_flight_are_answered_right_during_fifty_snapshots(server: RunningServer) -> None:
    # GIVEN the answer of a server that nobody looks at
    wanted = content(server.post("/completion", ASKED).body)
    seen, answered = 0, 0

    # WHEN snapshots are taken while requests run
    while seen < SNAPSHOTS:
        pending = server.begin(Request("POST", "/completion", ASKED))
        while True:
            taken = snapshot(server.pid)
            seen += 1
            assert taken.gaps == ()
            action = fact_of(taken.evidence[-1], ActionFact)
            assert action is not None
            assert action.outcome == "taken"
            answer = pending.wait(0)
            if answer is not None:
                break
        # THEN
        assert answer.status == 200
        assert content(answer.body) == wanted
        answered += 1
    assert answered
    with Process(server.pid) as process:
        assert process.tracer() == 0
        assert process.state() not in "tT"


def test_a_body_that_arrives_in_two_halves_around_a_snapshot_is_read_whole(server: RunningServer) -> None:
    # GIVEN a server whose thread waits in recv() for the rest of a body
    body = json.dumps(ASKED).encode()
    head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(head.encode() + body[: len(body) // 2])
        for _ in range(5):
            assert snapshot(server.pid).evidence
        # WHEN
        client.sendall(body[len(body) // 2 :])
        said = b"".join(iter(lambda: client.recv(65536), b""))
    # THEN
    assert said.startswith(b"HTTP/1.1 200")


def test_every_thread_is_whole_and_the_loop_is_seen(server: RunningServer) -> None:
    # GIVEN / WHEN
    taken = snapshot(server.pid)
    with Process(server.pid) as process:
        threads = process.threads()

    # THEN
    stacks = [fact_of(one, StackFact) for one in taken.evidence[:-1]]
    assert len(stacks) == threads >= HTTP_THREADS
    assert all(stack is not None and stack.complete for stack in stacks)
    functions = {frame.function or "" for stack in stacks if stack is not None for frame in stack.frames}
    assert any("server_queue::start_loop" in name for name in functions)


def test_python_frames_of_a_hosted_server_and_none_of_a_native_one(server: RunningServer) -> None:
    both = snapshot_hosted(server.pid)
    if server.spec.python is None:
        assert both.python == ()
        assert both.gaps[0].what == "Python frames"
    else:
        text = both.text()
        assert any(name == "main" for thread in both.python for name, _, _ in thread.frames)
        assert text.index("python  main (") > text.index("native  _PyEval_EvalFrame")
    assert both.native.evidence


@pytest.mark.full
def test_it_stops_the_server_for_less_time_than_a_debugger(server: RunningServer) -> None:
    found = {stop.tool: stop for stop in compare(server.pid, 1)}
    print([str(stop) for stop in found.values()])
    ours = found["llama-blackbox"]
    assert ours.whole == ours.threads >= HTTP_THREADS
    if "gdb -p" in found:
        assert ours.worst < found["gdb -p"].median
    assert server.get("/health").status == 200
    assert Path(f"/proc/{server.pid}").exists()
