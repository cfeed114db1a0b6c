"""An answer is right when it says what the awake server says."""

import json

import pytest

from analyzers.contracts.routes import RIGHT, STATUS_ONLY, WRONG
from analyzers.contracts.trials import ANSWERED, INCONCLUSIVE, REFUSED, SERVER_ERROR, WRONG_ANSWER
from collector.lab.reference.client import Answer
from collector.lab.verify.routes.rightness import Baseline, baseline, outcome_of, rightness
from collector.lab.verify.routes.table import Route

ROUTE = Route("POST", "/tokenize", "post_tokenize", {})


def answer(body=None, status=200):
    return Answer("/tokenize", status, json.dumps(body or {}).encode(), None, 0.0, 0.1)


class Server:
    """Answers with what it is given, one after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def send(self, request):
        return self.answers.pop(0)


AWAKE = Baseline(answer({"tokens": [1, 2]}), steady=True)


def test_the_same_tokens_are_right_and_others_are_wrong():
    assert rightness(answer({"tokens": [1, 2]}), AWAKE) == RIGHT
    assert rightness(answer({"tokens": [1, 9]}), AWAKE) == WRONG


def test_of_a_route_that_varies_only_the_status_counts():
    varies = Baseline(answer({"tokens": [1]}), steady=False)

    assert rightness(answer({"tokens": [5]}), varies) == STATUS_ONLY
    assert rightness(answer({}, 500), varies) == WRONG


@pytest.mark.parametrize("none", [Answer("/x", None, b"", "TimeoutError", 0.0, 1.0)])
def test_without_an_answer_on_either_side_nothing_is_right_or_wrong(none):
    assert rightness(none, AWAKE) is None
    assert rightness(answer(), Baseline(none, True)) is None
    assert outcome_of(none, AWAKE) == INCONCLUSIVE


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (answer({"tokens": [1, 2]}), ANSWERED),
        (answer({"tokens": [3]}), WRONG_ANSWER),
        (answer({"error": {"message": "_Map_base::at"}}, 500), SERVER_ERROR),
        (answer({"error": {"message": "Loading model"}}, 503), REFUSED),
    ],
)
def test_outcomes(given, outcome):
    assert outcome_of(given, AWAKE) == outcome


def test_a_refusal_that_the_awake_server_gives_as_well_is_an_answer():
    refused = answer({"error": {"message": "not supported"}}, 501)

    assert outcome_of(refused, Baseline(refused, True)) == ANSWERED


def test_two_equal_awake_answers_are_steady_and_two_different_ones_are_not():
    same = Server(answer({"tokens": [1]}), answer({"tokens": [1]}))
    other = Server(answer({"tokens": [1]}), answer({"tokens": [2]}))

    assert baseline(same, ROUTE).steady
    assert not baseline(other, ROUTE).steady


def test_a_route_marked_as_varying_is_never_steady():
    metrics = Route("GET", "/metrics", "get_metrics", varies=True)

    assert not baseline(Server(answer(), answer()), metrics).steady


def test_a_missing_route_is_absent():
    assert baseline(Server(answer({}, 404), answer({}, 404)), ROUTE).absent
