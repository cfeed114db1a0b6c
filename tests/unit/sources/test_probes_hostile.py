"""Probes against servers that mean harm: every call bounded, every outcome named, no key in any evidence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from analyzers.contracts.facts import ProbeFact, fact_of
from collector.sources.http import MAX_BODY
from collector.sources.probes import probe, probe_health, probe_metrics, probe_props
from collector.sources.target import Target

KEY = "sk-planted-secret"
SHORT = 0.4  # seconds; the drips below would go on for minutes
Talk = Callable[[socket.socket, threading.Event], None]


@contextmanager
def serving(talk: Talk) -> Iterator[tuple[Target, list[bytes]]]:
    """A server that answers every connection with ``talk``; yields it and the requests that it got."""
    stop = threading.Event()
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while not stop.is_set():
                with suppress(OSError):
                    client, _ = listener.accept()
                    with client:
                        heard.append(client.recv(65536))
                        talk(client, stop)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield Target(listener.getsockname()[1], api_key=KEY), heard
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def say(data: bytes) -> Talk:
    return lambda client, _: client.sendall(data)


def reply(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def drip(start: bytes) -> Talk:
    def talk(client: socket.socket, stop: threading.Event) -> None:
        client.sendall(start)
        while not stop.wait(0.05):
            client.sendall(b"a")

    return talk


def flood(client: socket.socket, stop: threading.Event) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not stop.is_set():
        client.sendall(b"x" * 65536)


def silence(_: socket.socket, stop: threading.Event) -> None:
    stop.wait(30)


BOMB = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00"
CASES: dict[str, tuple[Talk, str, int | None]] = {
    "says nothing": (silence, "timeout", None),
    "drips its headers": (drip(b"HTTP/1.1 200 OK\r\nX: "), "timeout", None),
    "drips its body": (drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"), "timeout", 200),
    "never ends": (flood, "too-big", 200),
    "promises more and hangs up": (say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), "garbage", 200),
    "hangs up": (say(b""), "garbage", None),
    "speaks no HTTP": (say(b"\x00\xff\x1b[2JSSH-2.0\r\n\r\n"), "garbage", None),
    "redirects elsewhere": (say(reply(b"", "302 Found", "Location: http://192.0.2.1/\r\n")), "redirect", 302),
    "answers a page": (say(reply(b"<html>")), "unexpected", 200),
    "answers a list": (say(reply(b"[]")), "unexpected", 200),
    "nests without end": (say(reply(b"[" * 100_000)), "unexpected", 200),
    "sends compressed bytes": (say(BOMB), "unexpected", 200),
    "wants a key": (say(reply(b"{}", "401 Unauthorized")), "answered", 401),
}


@pytest.mark.parametrize(("talk", "outcome", "status"), CASES.values(), ids=CASES.keys())
def test_a_hostile_props_answer_is_bounded_and_named(talk: Talk, outcome: str, status: int | None) -> None:
    # GIVEN
    with serving(talk) as (target, heard):
        # WHEN
        probed = probe_props(target, timeout=SHORT if outcome == "timeout" else 20.0)

    # THEN
    assert (probed.outcome, probed.fact.status) == (outcome, status)
    assert probed.fact.is_sleeping is None
    assert probed.evidence.text.isprintable()
    assert KEY not in probed.evidence.model_dump_json()
    assert len(heard) == 1


def test_nobody_there_is_named() -> None:
    # GIVEN a port that was free a moment ago
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    # WHEN / THEN
    assert probe_health(Target(port)).outcome == "refused"


def test_props_says_whether_it_sleeps_and_gets_the_key_and_health_does_not() -> None:
    # GIVEN
    body = b'{"is_sleeping": true, "endpoint_slots": false, "model_path": "/m/a.gguf", "build_info": "b1-x"}'
    with serving(say(reply(body))) as (target, heard):
        # WHEN
        props, health = probe_props(target), probe_health(target)

    # THEN
    assert props.fact.is_sleeping is True
    assert (props.slots_enabled, props.model_path, props.build) == (False, "/m/a.gguf", "b1-x")
    assert health.fact.status == 200
    assert KEY.encode() in heard[0]
    assert KEY.encode() not in heard[1]


@pytest.mark.parametrize("body", [b'{"is_sleeping": "true"}', b'{"is_sleeping": 1}', b"{}"])
def test_only_a_real_boolean_is_a_word_on_sleep(body: bytes) -> None:
    with serving(say(reply(body))) as (target, _):
        assert probe_props(target).fact.is_sleeping is None


def test_metrics_are_read_and_never_asked_for_unbidden() -> None:
    # GIVEN
    body = b"# TYPE x gauge\nllamacpp:requests_processing 2\nllamacpp:requests_deferred 0\n"
    with serving(say(reply(body))) as (target, heard):
        # WHEN
        probe(target)
        unbidden = b"".join(heard)
        metrics = probe_metrics(target)

    # THEN
    assert b"/metrics" not in unbidden
    assert b"/slots" not in unbidden
    fact = fact_of(metrics.evidence, ProbeFact)
    assert fact is not None
    assert (fact.requests_processing, fact.requests_deferred) == (2, 0)


def test_the_limit_leaves_room_for_a_large_chat_template() -> None:
    # GIVEN an honest answer of a quarter of the limit
    body = b'{"is_sleeping": false, "chat_template": "' + b"x" * (MAX_BODY // 4) + b'"}'
    with serving(say(reply(body))) as (target, _):
        # WHEN / THEN
        assert probe_props(target).fact.is_sleeping is False


@pytest.mark.parametrize(
    ("line", "decodes"),
    [
        (b"llamacpp:n_decode_total 42\n", 42),
        (b'llamacpp:n_decode_total{model="x"} 42.0\n', 42),
        (b"llamacpp:n_decode_total 1e9999\n", None),
        (b"# llamacpp:n_decode_total 42\n", None),
        (b"llamacpp:n_decode_total " + b"9" * 400 + b"\n", None),
    ],
)
def test_batches_worked_off_are_read_and_nothing_that_only_looks_like_them(
    line: bytes, decodes: int | None
) -> None:
    body = b"llamacpp:requests_processing 1\n" + line
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    with serving(say(head + body)) as (target, _):
        fact = probe_metrics(target, timeout=SHORT).fact
    assert (fact.decodes, fact.requests_processing, fact.outcome) == (decodes, 1, "answered")
