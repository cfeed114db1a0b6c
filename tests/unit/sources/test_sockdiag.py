"""Socket figures: the kernel's answer for real loopback connections, and hostile bytes in its place."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.sources.sockdiag import TcpSample, parse_connection, read_connections, split_messages


@contextmanager
def connection(family: int, bind: str, connect: str) -> Iterator[tuple[socket.socket, socket.socket, int]]:
    try:
        listener = socket.socket(family)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((bind, 0))
    except OSError:
        pytest.skip("this host lacks the address family")
    listener.listen()
    port = listener.getsockname()[1]
    client = socket.create_connection((connect, port))
    served, _ = listener.accept()
    try:
        yield client, served, port
    finally:
        for end in (client, served, listener):
            end.close()


CASES = [
    (socket.AF_INET, "127.0.0.1", "127.0.0.1", "127.0.0.1"),
    (socket.AF_INET6, "::1", "::1", "::1"),
    (socket.AF_INET6, "::", "127.0.0.1", "127.0.0.1"),
]


@pytest.mark.parametrize(("family", "bind", "connect", "peer"), CASES, ids=["ipv4", "ipv6", "v4-mapped"])
def test_only_the_servers_end_is_seen_with_its_figures(
    family: int, bind: str, connect: str, peer: str
) -> None:
    # GIVEN a client on this host that sent 11 bytes and got 3 back
    with connection(family, bind, connect) as (client, served, port):
        client.sendall(b"hello world")
        assert served.recv(5) == b"hello"
        served.sendall(b"yes")
        client.recv(3)

        # WHEN
        found = read_connections(port)

        # THEN its own end, which the host has as well, is not among them
        assert len(found) == 1
        assert (found[0].bytes_received, found[0].bytes_sent) == (11, 3)
        assert found[0].recv_queue == 6
        assert (found[0].peer_address, found[0].peer_port) == (peer, client.getsockname()[1])
        assert found[0].last_data_recv_ms is not None


def test_a_socket_keeps_its_cookie_and_another_has_another() -> None:
    # GIVEN
    with connection(*CASES[0][:3]) as (client, _, port):
        before = read_connections(port)[0]
        with socket.create_connection(("127.0.0.1", port)):
            # WHEN
            after = {tcp.peer_port: tcp.cookie for tcp in read_connections(port)}

        # THEN
        assert len(after) == 2
        assert after[client.getsockname()[1]] == before.cookie
        assert len(set(after.values())) == 2


def test_a_half_closed_connection_is_not_established() -> None:
    # GIVEN
    with connection(*CASES[0][:3]) as (client, served, port):
        client.shutdown(socket.SHUT_WR)
        assert served.recv(1) == b""

        # WHEN / THEN
        assert read_connections(port) == []
        assert [tcp.state for tcp in read_connections(port, states=1 << 8)] == [8]


def answer(port: int, info: bytes) -> bytes:
    head = struct.pack(
        "=BBBBHH16s16sIQIIIII",
        socket.AF_INET, 1, 0, 0, socket.htons(port), socket.htons(5000), b"\x7f\0\0\1", b"\x0a\0\0\7", 0,
        77, 0, 4, 0, 0, 4242,
    )  # fmt: skip
    return head + struct.pack("=HH", 4 + len(info), 2) + info


def test_an_old_kernels_short_tcp_info_gives_none_or_the_acknowledged_bytes() -> None:
    # GIVEN the layout up to bytes_received (4.1) and one without byte counts at all
    acked = bytearray(136)
    struct.pack_into("=QQ", acked, 120, 9, 10)

    # WHEN
    middle, old = parse_connection(answer(80, bytes(acked)), 80), parse_connection(answer(80, bytes(104)), 80)

    # THEN
    assert middle is not None
    assert (middle.bytes_sent, middle.bytes_received) == (9, 10)
    assert old == TcpSample(77, 4242, 1, "10.0.0.7", 5000, 4, 0, None, None, 0, 0)


def test_an_answer_about_another_port_is_dropped() -> None:
    assert parse_connection(answer(81, bytes(300)), 80) is None


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=400))
def test_no_bytes_upset_the_parsers(data: bytes) -> None:
    # WHEN / THEN every message lies within what was given
    assert sum(len(body) for _, body in split_messages(data)) <= len(data)
    parse_connection(data, 80)
    parse_connection(answer(80, b"")[:72] + data, 80)
