"""Answers as facts: only an answer that differs from the awake one of its route counts against the server."""

import json

from analyzers.contracts.evidence import Incarnation
from analyzers.contracts.facts import AnswerFact, fact_of
from collector.lab.demo.record import answer_evidence, error_text
from collector.lab.reference.client import Answer

TOO_LONG = {"error": {"code": 400, "message": "request exceeds the available context size"}}
EMPTY_MAP = {"error": {"code": 500, "message": "_Map_base::at"}}


def answer(status, body, route="/completion"):
    return Answer(route, status, json.dumps(body).encode(), None, 1.0, 2.0)


def facts(*answers):
    return [fact_of(item, AnswerFact) for item in answer_evidence(answers, Incarnation(pid=7))]


def test_the_first_answer_of_a_route_is_the_awake_one_whatever_its_status():
    found = facts(answer(400, TOO_LONG), answer(400, TOO_LONG))
    assert [(fact.status, fact.expected) for fact in found] == [(400, None), (400, True)]


def test_an_answer_that_differs_is_not_expected_and_carries_the_servers_words():
    found = facts(answer(200, {"tokens": [1]}, "/tokenize"), answer(500, EMPTY_MAP, "/tokenize"))
    assert (found[1].expected, found[1].error) == (False, "_Map_base::at")
    wrong = facts(answer(200, {"tokens": [1]}, "/tokenize"), answer(200, {"tokens": [2]}, "/tokenize"))
    assert wrong[1].expected is False


def test_routes_are_compared_apart_and_no_answer_is_no_fact():
    found = facts(
        answer(200, {"tokens": [1]}, "/tokenize"),
        Answer("/completion", None, b"", "RemoteDisconnected", 1.0, 2.0),
        answer(200, {"content": "x"}),
    )
    assert [(fact.route, fact.expected) for fact in found] == [("/tokenize", None), ("/completion", None)]


def test_an_error_text_is_bounded_and_printable():
    assert error_text(answer(500, {"error": {"message": "a\x1b[31m" + "b" * 500}}))[:3] == "a?["
    assert len(error_text(answer(500, {"error": {"message": "b" * 500}}))) == 200
    assert error_text(answer(500, {"error": "text"})) is None
    assert error_text(answer(500, [])) is None
