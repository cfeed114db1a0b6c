"""A port in use and a context without memory are no fault of the model file."""

from __future__ import annotations

import pytest

from analyzers.contracts.facts import LogFact
from analyzers.logs.recognise import recognise

PLACE = "hostname: 127.0.0.1, port: 8080"


@pytest.mark.parametrize(
    ("text", "event"),
    [
        (f"srv         start: couldn't bind HTTP server socket, {PLACE}", "bind-failed"),
        ("srv  llama_server: exiting due to HTTP server error", "bind-failed"),
        ("main: exiting due to HTTP server error", "bind-failed"),
        ("srv    load_model: failed to create_context with model '/m/a.gguf'", "context-failed"),
        ("cmn  common_init_: failed to create context with model '/m/a.gguf'", "context-failed"),
        (
            "common_init_from_params: failed to create context with model '/m/a.gguf'",
            "context-failed",
        ),
        ("srv    load_model: failed to load model, '/m/a.gguf'", "load-failed"),
        ("srv    load_model: failed to load draft model, '/m/a.gguf'", "load-failed"),
        ("gguf_init_from_file: failed to open GGUF file '/m/a.gguf' (No such file)", "load-failed"),
        ("llama_model_load: error loading model: tensor data is not within the file", "load-failed"),
        ("srv  llama_server: exiting due to model loading error", "load-failed"),
    ],
)
def test_what_failed_at_the_start_is_told_apart(text: str, event: str) -> None:
    found = recognise(f"0.00.003.000 E {text}".encode())
    assert found is not None
    assert isinstance(found.fact, LogFact)
    assert found.fact.event == event
