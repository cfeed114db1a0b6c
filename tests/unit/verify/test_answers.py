"""Right, wrong, refused or nothing: what an answer is, next to the awake server's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.contracts.trials import ANSWERED, INCONCLUSIVE, OUTCOMES, REFUSED, SERVER_ERROR, WRONG_ANSWER
from collector.lab.reference.client import Answer, Request
from collector.lab.verify.answers import differ, outcome_of, repeatable, telling


def answered(body: Any, status: int | None = 200) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer("/x", status, raw, None, 0.0, 1.0)


def chat(text: str, ident: str, created: int) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "message": {"content": text}, "finish_reason": "length"}],
        "id": ident,
        "created": created,
        "timings": {"predicted_ms": created},
        "usage": {"prompt_tokens_details": {"cached_tokens": created}},
    }


def events(*parts: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts) + b"data: [DONE]\n\n"


def response(text: str, ident: str) -> dict[str, Any]:
    part = {"id": ident, "content": [{"text": text, "type": "output_text"}]}
    return {"id": ident, "output": [part], "completed_at": len(ident)}


SAME_AND_OTHER = [
    (chat("a", "x1", 1_796_183_977), chat("a", "x2", 1_796_183_999), chat("b", "x1", 1_796_183_977)),
    (response("a", "r1"), response("a", "r22"), response("b", "r1")),
    ({"tokens": [1, 2], "t_ms": 1}, {"tokens": [1, 2], "t_ms": 2}, {"tokens": [1, 3], "t_ms": 1}),
    (
        {"tokens": [{"id": 5, "piece": "a"}]},
        {"tokens": [{"id": 5, "piece": "a"}]},
        {"tokens": [{"id": 6, "piece": "a"}]},
    ),
    ({"input_tokens": 3}, {"input_tokens": 3}, {"input_tokens": 4}),
    ([{"embedding": [0.5]}], [{"embedding": [0.5]}], [{"embedding": [0.25]}]),
    (
        events(chat("a", "x1", 1), chat("b", "x1", 1)),
        events(chat("a", "y", 2), chat("b", "y", 2)),
        events(chat("a", "x1", 1)),
    ),
    (
        events({"content": "a", "tokens": [4]}),
        events({"content": "a", "tokens": [4]}),
        events({"content": "a", "tokens": [7]}),
    ),
    (b"plain", b"plain", b"other"),
    ({"embedding": [float("nan")]}, {"embedding": [float("nan")]}, {"embedding": [0.0]}),
]


@pytest.mark.parametrize(("one", "again", "other"), SAME_AND_OTHER)
def test_ids_and_times_are_not_telling_and_content_is(one: Any, again: Any, other: Any) -> None:
    assert telling(answered(one)) == telling(answered(again))
    assert telling(answered(one)) != telling(answered(other))
    assert telling(answered(one)) != telling(answered(one, 500))


@pytest.mark.parametrize(
    ("answer", "awake", "outcome"),
    [
        (answered({"tokens": [1]}), answered({"tokens": [1]}), ANSWERED),
        (answered({"tokens": [2]}), answered({"tokens": [1]}), WRONG_ANSWER),
        (answered({"error": "_Map_base::at"}, 500), answered({"tokens": [1]}), SERVER_ERROR),
        (answered({"error": "_Map_base::at"}, 400), answered({"tokens": [1]}), SERVER_ERROR),
        (answered({"error": "too long"}, 400), answered({"error": "too long"}, 400), ANSWERED),
        (answered({"error": "loading"}, 503), answered({"tokens": [1]}), REFUSED),
        (answered({"error": "none"}, 404), answered({"error": "none"}, 404), REFUSED),
        (answered({"error": "none"}, 404), None, REFUSED),
        (answered({"tokens": [1]}), None, INCONCLUSIVE),
        (answered({"tokens": [1]}), answered(b"", None), INCONCLUSIVE),
        (answered({"tokens": [1]}), answered({"error": "loading"}, 503), INCONCLUSIVE),
        (answered(b"", None), answered({"tokens": [1]}), INCONCLUSIVE),
    ],
)
def test_outcomes(answer: Answer, awake: Answer | None, outcome: str) -> None:
    assert outcome_of(answer, awake) == outcome


ONE, TWO, THREE = (answered({"content": text}) for text in "abc")


@pytest.mark.parametrize(
    ("answer", "again", "outcome"),
    [
        (ONE, TWO, ANSWERED),
        (TWO, TWO, ANSWERED),
        (THREE, TWO, INCONCLUSIVE),  # a third awake answer could say it as well
        (THREE, ONE, WRONG_ANSWER),
        (THREE, None, WRONG_ANSWER),
        (answered({"error": "_Map_base::at"}, 500), TWO, SERVER_ERROR),
        (answered({"error": "loading"}, 503), TWO, REFUSED),
        (answered(b"", None), TWO, INCONCLUSIVE),
        (answered({"error": "x"}, 400), answered({"error": "y"}, 400), INCONCLUSIVE),
    ],
)
def test_two_awake_answers_that_differ_make_nothing_wrong(
    answer: Answer, again: Answer | None, outcome: str
) -> None:
    assert outcome_of(answer, ONE, again) == outcome
    assert differ(ONE, again) == (again is not None and again is not ONE)


@given(*[st.binary(max_size=20)] * 3, st.sampled_from([200, 400, 500]))
def test_a_server_that_differs_from_itself_is_never_called_wrong(
    body: bytes, first: bytes, second: bytes, status: int
) -> None:
    awake, again = answered(first), answered(second)
    found = outcome_of(answered(body, status), awake, again)
    if differ(awake, again):
        assert found != WRONG_ANSWER
        assert (found == ANSWERED) == (status == 200 and body in (first, second))
    else:
        assert found == outcome_of(answered(body, status), awake)


def test_a_body_nested_deeper_than_the_parser_goes_is_compared_as_it_stands() -> None:
    deep = b"[" * 200_000
    assert outcome_of(answered(deep), answered(deep)) == ANSWERED
    assert outcome_of(answered(deep), answered(deep + b"[")) == WRONG_ANSWER


@given(st.binary(max_size=200), st.binary(max_size=200), st.sampled_from([None, 200, 400, 404, 500, 503]))
def test_any_bytes_have_an_outcome(body: bytes, other: bytes, status: int | None) -> None:
    found = outcome_of(answered(body, status), answered(other))
    assert found in OUTCOMES
    if found == ANSWERED:
        assert status == 200


def test_a_repeatable_request_draws_nothing_at_random_and_keeps_the_rest() -> None:
    request = Request("POST", "/completion", {"prompt": "a", "temperature": 0.9}, timeout=3.0)
    made = repeatable(request)
    assert made.body["temperature"] == 0.0
    assert made.body["prompt"] == "a"
    assert made.timeout == 3.0
    assert request.body["temperature"] == 0.9
    get = Request("GET", "/slots")
    assert repeatable(get) is get
