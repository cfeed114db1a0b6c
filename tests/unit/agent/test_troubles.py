"""Incidents of living servers: one for each strand or hang, closed when over, the same after a restart."""

from __future__ import annotations

import pytest
from agent_builder import Time, fact, server

from analyzers.contracts.facts import ActionFact, SocketFact
from analyzers.contracts.report import Report, Tool, Verdict
from collector.agent.states.model import Transition
from collector.agent.troubles import TroubleBook


def moved(new: str, old: str | None = "asleep", mono: float = 1000.0) -> Transition:
    return Transition(old, new, 1_700_000_000 + mono, mono, f"it is {new}")


@pytest.fixture
def book() -> TroubleBook:
    return TroubleBook(host="h", clock=Time().clock())


@pytest.mark.parametrize(("state", "kind"), [("stranded", "stranded"), ("hung", "hang")])
def test_a_trouble_is_opened_with_its_facts_and_closed_when_it_is_over(book, state, kind):
    waiting = fact(SocketFact(unanswered=True))
    (opened,) = book.changed(server(), moved(state), [waiting])
    assert (opened.kind, opened.state, opened.revision) == (kind, "open", 1)
    assert opened.signs == [waiting]
    (closed,) = book.changed(server(), moved("awake", old=state))
    assert (closed.id, closed.state, closed.revision) == (opened.id, "closed", 2)


@pytest.mark.parametrize(
    "state", ["loading", "awake", "busy", "unloading", "asleep", "waking", "dumping", "stopping", "crashed"]
)
def test_every_other_state_is_no_trouble(book, state):
    assert book.changed(server(), moved(state)) == []


def test_the_next_strand_of_the_same_server_is_another_incident(book):
    (first,) = book.changed(server(), moved("stranded"))
    book.changed(server(), moved("awake", old="stranded"))
    (second,) = book.changed(server(), moved("stranded", mono=2000.0))
    assert first.id != second.id


def test_the_end_of_the_server_closes_it_and_only_its_own(book):
    book.changed(server(7), moved("stranded"))
    assert book.ended(server(8)) == []
    assert book.ended(server(7, start=99.0)) == []
    (closed,) = book.ended(server(7))
    assert closed.state == "closed"
    assert closed.notes == ["the server ended"]


def test_an_agent_that_starts_again_goes_on_with_the_same_incident(book):
    (opened,) = book.changed(server(), moved("stranded"))
    again = TroubleBook(clock=Time().clock())
    again.restore([opened])
    assert again.changed(server(), moved("stranded", old=None)) == []
    (closed,) = again.changed(server(), moved("awake", old="stranded"))
    assert (closed.id, closed.revision) == (opened.id, 2)


def test_what_ended_while_nobody_watched_is_closed(book):
    (opened,) = book.changed(server(7), moved("hung"))
    again = TroubleBook(clock=Time().clock())
    again.restore([opened])
    assert again.settle([server(7)]) == []
    (closed,) = again.settle([server(7, start=50.0)])
    assert closed.state == "closed"


def test_an_action_and_a_verdict_stand_in_the_record(book):
    (opened,) = book.changed(server(), moved("stranded"))
    done = fact(ActionFact(action="release-stranded", outcome="released"))
    (noted,) = book.noted(server(), done)
    assert noted.signs[-1] == done
    verdict = Verdict.model_validate({"class": "HANG-STRANDED"})
    report = Report(tool=Tool(version="1", catalogue="1"), verdict=verdict)
    (judged,) = book.judged(opened.id, report, ["report.json"])
    assert judged.verdict is not None
    assert judged.verdict.class_ == "HANG-STRANDED"
    assert judged.attachments == ["report.json"]
    assert book.judged("another", report) == []
