"""The table of routes: what is in it, and how it is picked from."""

import json

import pytest

from collector.lab.reference.client import Answer
from collector.lab.verify.routes.table import all_routes, chosen_routes, is_absent


def answer(status, body=b"{}"):
    return Answer("/x", status, body, None, 0.0, 0.1)


def test_every_route_of_the_server_is_in_the_table_once():
    # GIVEN the paths that tools/server/server.cpp of b11138 and b11368 registers for a server with one model
    registered = """GET /health|GET /v1/health|GET /metrics|GET /props|POST /props|GET /models|GET /v1/models
    POST /completion|POST /completions|POST /v1/completions|POST /chat/completions|POST /v1/chat/completions
    POST /v1/chat/completions/control|POST /v1/responses|POST /responses|POST /v1/audio/transcriptions
    POST /audio/transcriptions|POST /v1/messages|POST /infill|POST /embedding|POST /embeddings
    POST /v1/embeddings|POST /rerank|POST /reranking|POST /v1/rerank|POST /v1/reranking|POST /v1/systemone
    POST /tokenize|POST /detokenize|POST /apply-template|POST /chat/completions/input_tokens
    POST /v1/chat/completions/input_tokens|POST /responses/input_tokens|POST /v1/responses/input_tokens
    POST /v1/messages/count_tokens|GET /lora-adapters|POST /lora-adapters|GET /slots|GET /v1/stream
    POST /v1/streams/lookup|GET /cors-proxy|POST /cors-proxy|GET /tools|POST /tools"""
    wanted = {name.strip() for line in registered.splitlines() for name in line.split("|")}

    # WHEN the table is read
    names = [route.name for route in all_routes()]

    # THEN they are all there, and nothing is there twice
    assert wanted <= set(names)
    assert len(names) == len(set(names))


def test_the_actions_on_a_slot_are_asked_one_by_one():
    names = {route.name for route in all_routes() if route.handler == "post_slots"}

    assert names == {f"POST /slots/0?action={action}" for action in ("erase", "save", "restore")}


@pytest.mark.parametrize("route", all_routes(), ids=lambda route: route.name)
def test_a_request_can_be_sent_as_it_stands(route):
    request = route.request(3.0)

    assert (request.method, request.route, request.timeout) == (route.method, route.path, 3.0)
    assert request.payload() is None or json.loads(request.payload()) == route.body
    assert (route.body is None) == (route.method in ("GET", "DELETE"))


def test_only_calls_that_touch_nothing_are_harmless():
    assert {route.name for route in all_routes() if route.harmless} == {
        "GET /health",
        "GET /v1/health",
        "GET /props",
    }


def test_no_work_is_called_harmless():
    assert not [route for route in all_routes() if route.task and route.harmless]


def test_generated_answers_are_repeatable():
    # GIVEN the routes that generate text
    generating = [route for route in all_routes() if route.handler.startswith("post_") and route.task]
    generating = [
        r for r in generating if "completion" in r.handler or r.handler.endswith(("oai", "messages"))
    ]

    # THEN those that draw tokens do so without chance and without a cache that a sleep loses
    drawn = [r for r in generating if isinstance(r.body, dict) and "temperature" in r.body]
    assert len(drawn) >= 6
    assert all(r.body["temperature"] == 0 and r.body["cache_prompt"] is False for r in drawn)


def test_a_route_is_picked_by_path_or_by_method_and_path():
    assert [route.name for route in chosen_routes(("/props",))] == ["GET /props", "POST /props"]
    assert [route.name for route in chosen_routes(("POST /props",))] == ["POST /props"]


def test_without_names_all_are_picked():
    assert chosen_routes(()) == all_routes()


def test_an_unknown_route_is_named():
    with pytest.raises(KeyError, match="/nowhere"):
        chosen_routes(("/props", "/nowhere"))


@pytest.mark.parametrize(("status", "absent"), [(404, True), (200, False), (501, False), (None, False)])
def test_absent_is_what_the_server_answers_404(status, absent):
    assert is_absent(answer(status)) is absent
