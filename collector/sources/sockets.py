"""What the clients of one server look like from the kernel: who waits for an answer, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import SocketFact, to_evidence
from analyzers.triage.readers.sockets import QUIET_MS, peer_name
from collector.sources.sockdiag import TCP_ESTABLISHED, TcpSample, read_connections
from collector.sources.target import Target

Reader = Callable[[int], list[TcpSample]]


def unanswered(tcp: TcpSample, *, quiet_ms: int = QUIET_MS) -> bool:
    """True when the client has said something, then fell quiet, and nothing went back since.

    Source of the rule: TCP_INFO of stranded and innocent connections, field notes section 2. A client that
    shut down its sending side is no longer ESTABLISHED; an answer that the client does not take stands in
    the send queue; bytes that the server never read stand in the receive queue.
    """
    if tcp.state != TCP_ESTABLISHED or tcp.send_queue > 0:
        return False
    received, heard = tcp.bytes_received, tcp.last_data_recv_ms
    if received is None or heard is None or received - tcp.recv_queue <= 0 or heard < quiet_ms:
        return False
    if tcp.bytes_sent == 0:
        return True
    spoke = tcp.last_data_sent_ms
    return spoke is not None and heard < spoke


def same_request(earlier: TcpSample, later: TcpSample) -> bool:
    """True when nothing moved on one connection between two samples: the same request still waits."""
    return (
        earlier.cookie == later.cookie
        and earlier.bytes_received == later.bytes_received
        and earlier.bytes_sent == later.bytes_sent
    )


def to_fact(tcp: TcpSample, *, quiet_ms: int = QUIET_MS) -> SocketFact:
    """The contract's form of one sample."""
    return SocketFact(
        peer=peer_name(tcp.peer_address, tcp.peer_port),
        bytes_received=tcp.bytes_received,
        bytes_sent=tcp.bytes_sent,
        last_data_recv_ms=tcp.last_data_recv_ms,
        last_data_sent_ms=tcp.last_data_sent_ms,
        recv_queue=tcp.recv_queue,
        send_queue=tcp.send_queue,
        unanswered=unanswered(tcp, quiet_ms=quiet_ms),
    )


def describe(fact: SocketFact) -> str:
    """One readable line."""
    received, sent = fact.bytes_received, fact.bytes_sent
    line = f"client {fact.peer}: {received} bytes in, {sent} bytes out"
    if not fact.unanswered:
        return line
    return f"{line}; last word {(fact.last_data_recv_ms or 0) / 1000:.1f} s ago, nothing sent back since"


def to_socket_evidence(
    tcp: TcpSample,
    target: Target,
    *,
    wall: float,
    mono: float,
    incarnation: Incarnation | None = None,
    quiet_ms: int = QUIET_MS,
) -> Evidence:
    """Evidence of one sample: kernel-set, ``wall`` Unix seconds, ``mono`` CLOCK_MONOTONIC seconds."""
    fact = to_fact(tcp, quiet_ms=quiet_ms)
    return to_evidence(
        fact,
        id=f"socket-{tcp.cookie:x}-{int(mono * 1000)}",
        source=f"sock_diag, {target.name}",
        text=describe(fact),
        trust=Trust.KERNEL,
        wall=wall,
        mono=mono,
        incarnation=incarnation,
    )


def sample_sockets(
    target: Target,
    *,
    incarnation: Incarnation | None = None,
    read: Reader = read_connections,
) -> list[Evidence]:
    """One SocketFact per ESTABLISHED client of ``target``. Raises UserError when the kernel refuses."""
    wall, mono = time.time(), time.monotonic()
    return [
        to_socket_evidence(tcp, target, wall=wall, mono=mono, incarnation=incarnation)
        for tcp in read(target.port)
    ]
