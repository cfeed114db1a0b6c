"""A running server is asked in the state it is found in; a small server of our own stands in for it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from analyzers.errors import UserError
from collector.lab.verify.consent import consented
from collector.lab.verify.routes import foreign
from collector.lab.verify.routes.table import all_routes, chosen_routes


class Handler(BaseHTTPRequestHandler):
    """Sleeps until anything but the harmless calls and the metrics is asked."""

    def do_GET(self):
        state = self.server.state
        state["asked"].append(f"{self.command} {self.path}")
        if state["key"] and self.headers.get("Authorization") != f"Bearer {state['key']}":
            self.reply(401, {"error": {"message": "Invalid API Key"}})
        elif self.path == "/props":
            self.reply(
                200, state["props"] or {"is_sleeping": state["sleeping"], "build_info": state["build"]}
            )
        elif self.path in state["routes"]:
            state["sleeping"] = state["sleeping"] and self.path in ("/health", "/v1/health", "/metrics")
            self.reply(200, {"status": "ok"})
        else:
            self.reply(404, {})

    do_POST = do_GET  # noqa: N815 - the base class names it so

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def running():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.state = {
        "asked": [],
        "sleeping": True,
        "build": "b11549-abcdef0",
        "routes": ["/health", "/v1/health", "/metrics", "/slots"],
        "props": None,
        "key": None,
    }
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def target(running):
    return consented(f"http://127.0.0.1:{running.server_address[1]}", "127.0.0.1")


def test_it_is_recognised_by_its_props(target):
    found = foreign.find(target, foreign.asker(target))

    assert (found.build, found.sleeping) == (11549, True)


def test_by_default_only_harmless_calls_are_sent(running, target):
    # WHEN a sleeping server is asked what is allowed without a further word
    ask = foreign.asker(target)
    found = foreign.find(target, ask)
    trials = list(foreign.survey(ask, found, foreign.allowed(all_routes(), all_routes=False)))

    # THEN it still sleeps, and nothing else reached it
    assert running.state["sleeping"]
    assert set(running.state["asked"]) == {"GET /props", "GET /health", "GET /v1/health"}
    assert {(each.state, each.wakes, each.promise) for each in trials} == {("asleep", False, "kept")}


def test_with_all_routes_a_call_that_wakes_is_seen_to_wake(running, target):
    ask = foreign.asker(target)
    found = foreign.find(target, ask)
    routes = foreign.allowed(chosen_routes(("GET /metrics", "GET /slots", "GET /tools")), all_routes=True)

    metrics, slots, tools = foreign.survey(ask, found, routes)

    assert (metrics.state, metrics.wakes, metrics.promise) == ("asleep", False, "kept")
    assert (slots.state, slots.wakes, slots.promised) == ("asleep", True, None)
    assert (tools.state, tools.absent) == ("awake", True)


def test_a_call_that_should_be_silent_and_wakes_breaks_its_promise(running, target):
    ask = foreign.asker(target)
    found = foreign.find(target, ask)
    running.state["routes"].append("/models")

    (models,) = foreign.survey(ask, found, chosen_routes(("GET /models",)))

    assert models.promise == "broken"


def test_the_document_names_no_address(running, target):
    ask = foreign.asker(target)
    found = foreign.find(target, ask)
    trials = list(foreign.survey(ask, found, foreign.allowed(all_routes(), all_routes=False)))

    built = foreign.build_of(found, trials, 1.0)

    assert built.subject.kind == "remote"
    assert "127.0.0.1" not in built.model_dump_json()
    assert str(running.server_address[1]) not in built.model_dump_json()


def test_the_key_is_sent_and_its_lack_is_named(running, target):
    running.state["key"] = "letmein"

    with pytest.raises(UserError, match="wants an API key"):
        foreign.find(target, foreign.asker(target))
    assert foreign.find(target, foreign.asker(target, "letmein")).sleeping


@pytest.mark.parametrize("props", [{"hello": "world"}, ["list"], "text"])
def test_another_program_is_no_llama_server(running, target, props):
    running.state["props"] = props

    with pytest.raises(UserError, match="not those of a llama-server"):
        foreign.find(target, foreign.asker(target))


def test_nobody_there_is_named():
    target = consented("http://127.0.0.1:9", "127.0.0.1")

    with pytest.raises(UserError, match="no answer"):
        foreign.find(target, foreign.asker(target))


def test_a_hostile_build_text_is_cut_and_printable(running, target):
    running.state["build"] = "\x1b[2J" + "x" * 10_000

    found = foreign.find(target, foreign.asker(target))

    assert found.name.isprintable()
    assert len(found.name) <= foreign.NAME_LENGTH
    assert found.build is None
