"""Who waits for an answer: the stranded client and everyone who only looks like one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.contracts.facts import SocketFact, fact_of
from collector.sources.sockdiag import TcpSample
from collector.sources.sockets import peer_name, same_request, sample_sockets, unanswered
from collector.sources.target import Target

# Figures of a real stranded request on a fresh connection: nothing was ever sent, so "last sent" counts
# from the connection's own start.
STRANDED = TcpSample(3, 48620, 1, "127.0.0.1", 56032, 0, 0, 11807, 0, 3120, 3120)

CASES = {
    "stranded on a fresh connection": (STRANDED, True),
    "stranded on a kept-alive connection": (replace(STRANDED, bytes_sent=2055, last_data_sent_ms=9000), True),
    "kept alive, answered in the same millisecond": (
        replace(STRANDED, bytes_sent=2055, last_data_recv_ms=1600, last_data_sent_ms=1600),
        False,
    ),
    "kept alive, answered after a while": (replace(STRANDED, bytes_sent=2055, last_data_sent_ms=1200), False),
    "silent client": (replace(STRANDED, bytes_received=0), False),
    "upload between two packets": (replace(STRANDED, last_data_recv_ms=400), False),
    "half closed": (replace(STRANDED, state=8), False),
    "answered, client does not take it": (
        replace(STRANDED, send_queue=90_000, bytes_sent=5, last_data_sent_ms=9000),
        False,
    ),
    "never read by the server": (replace(STRANDED, recv_queue=11807), False),
    "a second request piled up behind it": (replace(STRANDED, recv_queue=200), True),
    "kernel too old for byte counts": (replace(STRANDED, bytes_received=None, bytes_sent=None), False),
    "kernel too old for sent bytes, later silence": (
        replace(STRANDED, bytes_sent=None, last_data_sent_ms=9000),
        True,
    ),
}


@pytest.mark.parametrize(("tcp", "expected"), CASES.values(), ids=CASES.keys())
def test_who_waits_for_an_answer(tcp: TcpSample, expected: bool) -> None:
    assert unanswered(tcp) is expected


def test_a_request_is_the_same_only_while_nothing_moves() -> None:
    assert same_request(STRANDED, replace(STRANDED, last_data_recv_ms=9999))
    assert not same_request(STRANDED, replace(STRANDED, bytes_received=11808))
    assert not same_request(STRANDED, replace(STRANDED, bytes_sent=1))
    assert not same_request(STRANDED, replace(STRANDED, cookie=4))


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("10.1.2.3", "private"),
        ("8.8.4.4", "public"),
        ("x", "unknown"),
    ],
)
def test_evidence_names_the_kind_of_a_peer_never_its_address(address: str, kind: str) -> None:
    # GIVEN
    assert peer_name(address, 5000) == f"{kind}:5000"

    # WHEN
    made = sample_sockets(Target(8080), read=lambda _: [replace(STRANDED, peer_address=address)])

    # THEN
    assert address not in made[0].model_dump_json() or address == "x"
    fact = fact_of(made[0], SocketFact)
    assert fact is not None
    assert fact.unanswered
    assert "nothing sent back" in made[0].text
