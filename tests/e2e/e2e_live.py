"""Plays with steps of their own: a request found and released from outside, clients that give up, ends
that are asked for, and servers in good health."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from e2e_stage import Play, hand_over

from analyzers.contracts.evidence import Evidence
from collector.actions.release import release_stranded
from collector.actions.snapshot import snapshot
from collector.lab.faults import d2_unload_under_reader as d2
from collector.lab.faults import d3_stranded
from collector.lab.faults.exception import UNFINISHED
from collector.lab.faults.prompts import count_tokens, touch
from collector.lab.faults.provoked import CRASH, HEALTHY, STOPPED, Expected, Stage, closed
from collector.lab.reference import Answer, Request, RunningServer
from collector.lab.reference.conditions import ENTERING, asleep, exited, lines
from collector.sources.modelfile import look_at_model
from collector.sources.probes import probe
from collector.sources.procfs import read_incarnation
from collector.sources.sockdiag import read_connections
from collector.sources.sockets import to_socket_evidence
from collector.sources.stranded import find_stranded
from collector.sources.target import Target
from collector.sources.waits import sockets_being_read

DEADLINE = 20.0
QUIET = Expected("NO-FAULT", ("unknown",), ("awake", "asleep"))
# Hundreds of tokens for each of hundreds of prompts: a minute of work with the smallest model. Streamed, so
# that the server notices at the next token that nobody listens any more.
BUSY = {"prompt": ["a"] * 400, "n_predict": 400, "ignore_eos": True, "stream": True}
GIVES_UP = 2.5  # seconds; longer than the lab's settling, so that the request is known to be stranded first


def target_of(server: RunningServer) -> Target:
    return Target(server.port, pid=server.pid)


def strand_and_release(stage: Stage, folder: Path) -> Play:
    """A stranded request, found by looking from outside, its threads looked at, released by one call."""
    provoked = d3_stranded.provoke(stage)
    assert provoked.happened, f"nothing was stranded: {provoked.outcome}"
    server = provoked.server
    files = look_at_model([str(server.spec.model)], pid=server.pid)
    found = find_stranded(target_of(server), 1.0)
    assert found is not None, "the stranded request was not found from outside"
    seen = snapshot(server.pid)
    action = release_stranded(found, files=files)
    assert provoked.client is not None
    answer = provoked.client.wait(DEADLINE)
    assert answer is not None, "the released client got no answer"
    assert answer.status == 200
    evidence = (*found.evidence, *seen.evidence, action)
    play = hand_over(provoked, folder, evidence, (*found.gaps, *seen.gaps))
    server.take_down()
    return play


def give_up_asleep(stage: Stage, folder: Path) -> Play:
    """A stranded request whose client gives up: nothing but the log tells."""
    provoked = d3_stranded.provoke(stage, patience=GIVES_UP)
    assert provoked.happened, f"nothing was stranded: {provoked.outcome}"
    assert provoked.server.wait_until(lines("cancel task"), DEADLINE)
    play = hand_over(provoked, folder)
    provoked.server.take_down()
    return play


def give_up_awake(stage: Stage, folder: Path) -> Play:
    """A client that gives up on an awake server at work."""
    server = stage.start()
    body = json.dumps(BUSY).encode()
    head = f"POST /completion HTTP/1.1\r\nHost: lab\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as client:
        client.sendall(head.encode() + body)
        began = bool(client.recv(100))
    cancelled = began and server.wait_until(lines("cancel task"), DEADLINE)
    cancelled = cancelled and server.wait_until(lines("stop processing"), DEADLINE)  # the slot is free again
    return looked_at("give-up-awake", server, folder, happened=cancelled)


def looked_at(
    name: str,
    server: RunningServer,
    folder: Path,
    *,
    happened: bool,
    answers: tuple[Answer, ...] = (),
    more: Sequence[Evidence] = (),
) -> Play:
    """The hand-over of a server that lives: its health alone would say little, so all its probes are in."""
    evidence = [*more, *probe(target_of(server), incarnation=read_incarnation(server.pid))]
    ended = closed(name, QUIET, server, HEALTHY, happened=happened, answers=answers)
    return hand_over(ended, folder, evidence)


def idle_client(stage: Stage, folder: Path) -> Play:
    """A sleeping server with two clients that want nothing: one silent, one answered and kept open."""
    server = stage.start(idle_seconds=1)
    slept = server.wait_until(asleep, DEADLINE)
    target, who = target_of(server), read_incarnation(server.pid)
    with socket.create_connection(("127.0.0.1", server.port)):
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        kept.request("GET", "/props")
        kept.getresponse().read()
        assert find_stranded(target, 1.0) is None
        now = {"wall": time.time(), "mono": time.monotonic(), "incarnation": who}
        clients = [to_socket_evidence(tcp, target, **now) for tcp in read_connections(server.port)]
        kept.close()
    happened = slept and len(clients) >= 2
    return looked_at("idle-client", server, folder, happened=happened, more=clients)


def far_from_sleep(stage: Stage, folder: Path) -> Play:
    """D2's own request, before a sleep and again right after the wake: both answered alike."""
    server = stage.start(idle_seconds=3)
    request = d2.COMPLETION.request
    answers = [server.send(request)]
    slept = server.wait_until(asleep, DEADLINE)
    server.send(touch())
    answers.append(server.send(request))
    happened = slept and server.transitions(ENTERING) == 1
    return looked_at("far-from-sleep", server, folder, happened=happened, answers=tuple(answers))


def refused(stage: Stage, folder: Path) -> Play:
    """A request that throws inside its handler: caught, logged and answered."""
    server = stage.start()
    answer = server.send(Request("POST", "/tokenize", raw=b"{bad"))
    logged = server.wait_until(lines("got exception"), DEADLINE)
    happened = logged and answer.status in (400, 500)
    return looked_at("refused", server, folder, happened=happened, answers=(answer,))


def sleepers(stage: Stage, folder: Path, cycles: int = 3) -> Play:
    """Many sleeps, each answer like the first; the server is asleep and alive when it is last looked at."""
    server = stage.start(idle_seconds=1)
    answers = [server.send(count_tokens())]
    slept = server.wait_until(asleep, DEADLINE)
    for _ in range(cycles):
        answers += [server.send(touch()), server.send(count_tokens())]
        slept = server.wait_until(asleep, DEADLINE) and slept
    counts = {answer.body for answer in answers if answer.route == count_tokens().route}
    happened = slept and len(counts) == 1 and server.transitions(ENTERING) == cycles + 1
    return looked_at("sleepers", server, folder, happened=happened, answers=tuple(answers))


def killed_asleep(stage: Stage, folder: Path) -> Play:
    """SIGKILL to a server that sleeps: the last thing its log says is that it goes to sleep."""
    server = stage.start(idle_seconds=1)
    slept = server.wait_until(asleep, DEADLINE)
    ending = server.kill()
    happened = slept and ending is not None and ending.signal == signal.SIGKILL
    return hand_over(closed("killed-asleep", QUIET, server, STOPPED, happened=happened), folder)


def signalled(stage: Stage, folder: Path, number: int, *, stopping: bool = False) -> Play:
    """A signal that dumps core, from outside: to an awake server, or to one that was told to stop before.

    An upload that never ends keeps the stopping one from ending by itself.
    """
    server = stage.start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        if stopping:
            client.sendall(UNFINISHED)
            assert server.wait_until(lambda each: bool(sockets_being_read(each.pid)), DEADLINE)
            os.kill(server.pid, signal.SIGTERM)
            assert server.wait_until(lines("cleaning up before exit"), DEADLINE)
        os.kill(server.pid, number)
        server.wait_until(exited, DEADLINE)
    ending = server.ending
    happened = ending is not None and ending.signal == number
    return hand_over(closed("signalled", QUIET, server, CRASH, happened=happened), folder)
