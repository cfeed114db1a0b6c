"""What the verifier calls a right answer, held against real awake servers: each route sent twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from verify_wheels import AFFECTED, FIXED, WHEELS

from analyzers.contracts.trials import ANSWERED, WRONG_ANSWER
from collector.lab.reference import ReferenceServer, RunningServer, ServerSpec, cached_model
from collector.lab.reference.client import Answer, Request
from collector.lab.reference.environments import prepare
from collector.lab.verify.answers import outcome_of, repeatable, telling

pytestmark = pytest.mark.real
CHAT = [{"role": "user", "content": "say hello"}]
WORDS = "hello world"
GENERATION: dict[str, tuple[str, dict[str, Any]]] = {
    "completion": ("/completion", {"prompt": WORDS, "n_predict": 4}),
    "array of prompts": ("/completion", {"prompt": ["hello", "world"], "n_predict": 3}),
    "stream": ("/completion", {"prompt": WORDS, "n_predict": 4, "stream": True}),
    "text completion": ("/v1/completions", {"prompt": WORDS, "max_tokens": 4}),
    "chat": ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 4}),
    "chat stream": ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 4, "stream": True}),
    "responses": ("/v1/responses", {"input": WORDS, "max_output_tokens": 4}),
    "messages": ("/v1/messages", {"messages": CHAT, "max_tokens": 4}),
}
READING: dict[str, tuple[str, dict[str, Any]]] = {
    "tokenize": ("/tokenize", {"content": WORDS}),
    "pieces": ("/tokenize", {"content": WORDS, "with_pieces": True}),
    "detokenize": ("/detokenize", {"tokens": [300, 301]}),
    "template": ("/apply-template", {"messages": CHAT}),
    "count": ("/v1/chat/completions/input_tokens", {"messages": CHAT}),
}


@pytest.fixture(scope="module", params=[AFFECTED, FIXED])
def awake(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    with ReferenceServer() as lab:
        yield lab.start(ServerSpec(cached_model(), python=prepare(WHEELS[request.param])))


def asked(route: str, body: dict[str, Any], **changes: Any) -> Request:
    return repeatable(Request("POST", route, {**body, **changes}))


@pytest.mark.parametrize("name", [*GENERATION, *READING])
def test_two_answers_of_one_awake_server_are_the_same(awake: RunningServer, name: str) -> None:
    request = asked(*{**GENERATION, **READING}[name])
    first, second = awake.send(request), awake.send(request)
    assert first.status == 200, first.body
    assert outcome_of(second, first) == ANSWERED
    body = telling(first)[1]
    assert body not in (None, {}, [], first.body), "nothing of it is compared"


@pytest.mark.parametrize("name", list(GENERATION))
def test_other_generated_tokens_are_another_answer(awake: RunningServer, name: str) -> None:
    # GIVEN the answer to a request, and to one whose first token is another
    route, body = GENERATION[name]
    first = awake.send(asked(route, body))
    other = awake.send(_sampled_otherwise(route, body))
    # THEN they are told apart
    assert other.status == first.status == 200
    assert outcome_of(other, first) == WRONG_ANSWER


def _sampled_otherwise(route: str, body: dict[str, Any]) -> Request:
    made = asked(route, body)
    return Request("POST", route, {**made.body, "temperature": 5.0, "seed": 4242, "top_k": 0, "top_p": 1.0})


@pytest.mark.parametrize("name", list(READING))
def test_one_changed_value_is_another_answer(awake: RunningServer, name: str) -> None:
    first = awake.send(asked(*READING[name]))
    for at, changed in enumerate(_each_changed(json.loads(first.body))):
        other = Answer(first.route, 200, json.dumps(changed).encode(), None, 0.0, 0.0)
        assert outcome_of(other, first) == WRONG_ANSWER, f"change {at} was not seen"


def _each_changed(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer with one token, text or count changed at a time."""
    for name, value in body.items():
        if name == "object":
            continue
        if isinstance(value, list):
            for at, item in enumerate(value):
                new = {**item, "id": item["id"] + 1} if isinstance(item, dict) else item + 1
                yield {**body, name: [*value[:at], new, *value[at + 1 :]]}
        else:
            yield {**body, name: value + 1 if isinstance(value, int) else value + "x"}


def test_without_a_fixed_seed_two_awake_answers_differ(awake: RunningServer) -> None:
    """Why requests are made repeatable: without it a healthy server looks wrong."""
    request = Request("POST", "/completion", {"prompt": WORDS, "n_predict": 16})
    assert len({json.dumps(telling(awake.send(request))[1]) for _ in range(4)}) > 1
