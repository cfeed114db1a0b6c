"""Two looks at one server: what counts as stranded, and everything that must not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ProbeFact, SocketFact, fact_of, to_evidence
from collector.sources.probes import Probe
from collector.sources.sockdiag import TcpSample
from collector.sources.stranded import MIN_BETWEEN_SECONDS, Senses, find_stranded
from collector.sources.target import Target

EARLY = TcpSample(3, 700, 1, "127.0.0.1", 56032, 0, 0, 11807, 0, 500, 500)
LATE = replace(EARLY, last_data_recv_ms=5500, last_data_sent_ms=5500)
ANSWERED = replace(LATE, bytes_sent=200, last_data_sent_ms=100)
T = TypeVar("T")
TARGET = Target(8080, pid=42)
LIFE = Incarnation(pid=42, start_time=7.0, boot_id="b")


def props(sleeping: bool | None, outcome: str = "answered") -> Probe:
    fact = ProbeFact(route="/props", status=200, is_sleeping=sleeping)
    made: Evidence = to_evidence(fact, id="p", source="s", text="t", trust=Trust.SERVER)
    return Probe(fact, outcome, made)


@dataclass
class Host:
    """A pretended host: each look takes the next of its answers, the last one for ever."""

    looks: list[list[TcpSample]] = field(default_factory=lambda: [[EARLY], [LATE]])
    asleep: list[Probe] = field(default_factory=lambda: [props(True)])
    owned: frozenset[int] | None = frozenset({700})
    being_read: frozenset[int] | None = frozenset()
    slept: list[float] = field(default_factory=list)
    probed: int = 0

    def senses(self) -> Senses:
        looks, words = endless(self.looks), endless(self.asleep)

        def ask(_: Target) -> Probe:
            self.probed += 1
            return next(words)

        return Senses(
            connections=lambda _: next(looks),
            props=ask,
            owned=lambda _: self.owned,
            being_read=lambda _: self.being_read,
            incarnation=lambda _: LIFE,
            sleep=self.slept.append,
            mono=lambda: 100.0,
            wall=lambda: 1e9,
        )


def endless(answers: list[T]) -> Iterator[T]:
    yield from answers
    while True:
        yield answers[-1]


def test_a_request_that_nothing_moves_under_a_sleeping_server_is_stranded() -> None:
    # GIVEN
    host = Host()

    # WHEN
    found = find_stranded(TARGET, 5.0, senses=host.senses())

    # THEN it waited out the client's patience, no longer, and keeps both looks as evidence of one life
    assert found is not None
    assert host.slept == [4.5]
    assert found.connections == (LATE,)
    assert found.quiet_seconds == 5.5
    assert [e.kind for e in found.evidence] == ["socket", "probe", "socket", "probe"]
    assert {e.incarnation for e in found.evidence} == {LIFE}
    sockets = [fact_of(e, SocketFact) for e in found.evidence if e.kind == "socket"]
    assert all(fact and fact.unanswered for fact in sockets)
    assert found.gaps == ()


INNOCENT = {
    "nobody connected": Host(looks=[[]]),
    "awake and busy": Host(asleep=[props(False)]),
    "freeing or loading the model": Host(asleep=[props(None, "timeout")]),
    "no word on sleep": Host(asleep=[props(None)]),
    "woke between the looks": Host(asleep=[props(True), props(False)]),
    "answered between the looks": Host(looks=[[EARLY], [ANSWERED]]),
    "sent more between the looks": Host(looks=[[EARLY], [replace(LATE, bytes_received=20000)]]),
    "gone between the looks": Host(looks=[[EARLY], []]),
    "another client at the second look": Host(looks=[[EARLY], [replace(LATE, cookie=4)]]),
    "not yet quiet for the patience": Host(looks=[[EARLY], [replace(LATE, last_data_recv_ms=4000)]]),
    "stalled upload": Host(being_read=frozenset({700})),
    "another process's client": Host(owned=frozenset({701})),
}


@pytest.mark.parametrize("host", INNOCENT.values(), ids=INNOCENT.keys())
def test_the_innocent_are_not_reported(host: Host) -> None:
    assert find_stranded(TARGET, 5.0, senses=host.senses()) is None


def test_a_server_with_nobody_waiting_is_not_even_probed() -> None:
    # GIVEN
    host = Host(looks=[[replace(EARLY, bytes_received=0)]])

    # WHEN
    find_stranded(TARGET, 5.0, senses=host.senses())

    # THEN
    assert (host.probed, host.slept) == (0, [])


def test_an_old_wait_is_still_looked_at_twice() -> None:
    # GIVEN a client that has waited for minutes already
    long = replace(EARLY, last_data_recv_ms=300_000, last_data_sent_ms=300_000)
    host = Host(looks=[[long]])

    # WHEN
    found = find_stranded(TARGET, 5.0, senses=host.senses())

    # THEN
    assert found is not None
    assert host.slept == [MIN_BETWEEN_SECONDS]


@pytest.mark.parametrize(("word", "expected"), [(True, True), (False, False), (None, False)])
def test_the_log_stands_in_where_props_says_nothing(word: bool | None, expected: bool) -> None:
    # GIVEN a server whose /props wants a key that is not known
    host = Host(asleep=[props(None)])

    # WHEN
    found = find_stranded(TARGET, 5.0, asleep_by_log=lambda: word, senses=host.senses())

    # THEN
    assert (found is not None) is expected


def test_the_log_never_overrules_props() -> None:
    for probe in (props(False), props(None, "timeout")):
        host = Host(asleep=[probe])
        assert find_stranded(TARGET, 5.0, asleep_by_log=lambda: True, senses=host.senses()) is None


@pytest.mark.parametrize("target", [Target(8080), TARGET], ids=["no pid", "no rights"])
def test_what_could_not_be_checked_is_a_gap(target: Target) -> None:
    # GIVEN threads that cannot be seen
    host = Host(being_read=None, owned=None)

    # WHEN
    found = find_stranded(target, 5.0, senses=host.senses())

    # THEN
    assert found is not None
    assert "upload" in found.gaps[0].what
    assert (found.gaps[0].command is None) == (target.pid is None)
