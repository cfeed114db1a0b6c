"""A listing of ss: whose end a row is, and who waits for an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.facts import SocketFact, fact_of
from analyzers.triage.material import Material, numbering
from analyzers.triage.readers.looks import text_kind
from analyzers.triage.readers.sockets import peer_name, sockets_material

HEAD = "State    Recv-Q Send-Q Local Address:Port  Peer Address:Port  Process\n"
LISTEN = 'LISTEN 0 512 127.0.0.1:8080 0.0.0.0:* users:(("llama-server",pid=42,fd=5))\n\t cubic cwnd:10\n'
INFO = "\t cubic rto:200 bytes_received:312 segs_in:4 lastsnd:61000 lastrcv:60012 lastack:60012\n"


def row(local: str, peer: str, who: str = "", info: str = INFO, queues: str = "0 0") -> str:
    users = f' users:(("{who}",pid=42,fd=9))' if who else ""
    return f"ESTAB {queues} {local} {peer}{users}\n{info}"


def read(tmp_path: Path, text: str) -> Material:
    path = tmp_path / "sockets.txt"
    path.write_text(text)
    assert text_kind(text.encode()) == "sockets"
    return sockets_material(path, "sockets.txt", numbering())


def facts(material: Material) -> list[SocketFact]:
    return [fact for item in material.evidence if (fact := fact_of(item, SocketFact)) is not None]


def test_a_request_that_nobody_answers_is_seen_at_the_servers_end_only(tmp_path: Path) -> None:
    # GIVEN both ends of one loopback connection; the client's end looks unanswered by the figures alone
    own = row("127.0.0.1:8080", "127.0.0.1:51234", "llama-server")
    theirs = row("127.0.0.1:51234", "127.0.0.1:8080", "curl")
    found = read(tmp_path, HEAD + LISTEN + own + theirs)
    # THEN one row, with its process, unanswered, and no address in it
    (fact,) = facts(found)
    assert (fact.unanswered, fact.peer, fact.bytes_received) == (True, "loopback:51234", 312)
    assert found.evidence[0].incarnation.pid == 42
    assert found.evidence[0].trust.value == "kernel-set"


def test_a_listing_of_one_state_has_no_state_column(tmp_path: Path) -> None:
    text = (
        "Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n0 0 10.0.0.1:8080 10.0.0.2:51234\n"
        + INFO
    )
    (fact,) = facts(read(tmp_path, text))
    assert fact.unanswered
    assert fact.peer == "private:51234"


ANSWERED = {
    "answered": "\t cubic bytes_sent:900 bytes_received:312 lastsnd:100 lastrcv:60012\n",
    "just now": "\t cubic bytes_received:312 lastsnd:61000 lastrcv:12\n",
    "said nothing": "\t cubic lastsnd:61000 lastrcv:61000\n",
    "no figures": "",
}


@pytest.mark.parametrize("name", ANSWERED)
def test_innocent_connections_are_not_unanswered(tmp_path: Path, name: str) -> None:
    text = HEAD + LISTEN + row("127.0.0.1:8080", "127.0.0.1:51234", "llama-server", ANSWERED[name])
    assert [fact.unanswered for fact in facts(read(tmp_path, text))] == [False]


def test_an_answer_under_way_or_a_request_unread_is_no_strand(tmp_path: Path) -> None:
    for queues in ("0 4096", "312 0"):
        text = HEAD + LISTEN + row("127.0.0.1:8080", "127.0.0.1:51234", "llama-server", queues=queues)
        assert [fact.unanswered for fact in facts(read(tmp_path, text))] == [False]


def test_other_programs_connections_are_not_the_servers(tmp_path: Path) -> None:
    # GIVEN an idle ssh session and a proxy, whose clients spoke last too, and no llama-server by name
    text = HEAD + row("10.0.0.1:22", "10.0.0.2:51234") + row("10.0.0.1:443", "10.0.0.2:51235")
    found = read(tmp_path, text)
    assert found.evidence == ()
    assert "several servers" in found.gaps[0].why


def test_a_listing_without_connections_says_so(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + LISTEN)
    assert found.evidence == ()
    assert "no connection is established" in found.gaps[0].why


def test_addresses_become_kinds() -> None:
    assert peer_name("[::ffff:127.0.0.1]", 9) == "loopback:9"
    assert peer_name("fe80::1%eth0", 9) == "private:9"
    assert peer_name("8.8.8.8", 9) == "public:9"
    assert peer_name("x", 9) == "unknown:9"


def test_hostile_listings_are_bounded(tmp_path: Path) -> None:
    text = HEAD + row("1.1.1.1:99999", "2.2.2.2:1") + "ESTAB " + "9" * 5000 + "\n" + "\x1b[2J" * 100
    assert read(tmp_path, text).evidence == ()
