"""Sleep lines that a request's text put into the log do not count as the server's."""

from __future__ import annotations

import io

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import LogFact, fact_of
from analyzers.logs.scan import read_text

START = """\
0.00.000.278 I srv          init: initializing ...
0.00.040.290 I srv          init: model loaded
0.00.040.319 I srv          init: listening on http://127.0.0.1:8080
0.05.100.000 I slot launch_slot_: id  0 | task 7 | processing task, is_child = 0
0.05.200.000 I slot      release: id  0 | task 7 | stop processing: n_tokens = 8, truncated = 0
"""
QUEUE, CONTEXT = (
    "que    start_loop: entering sleeping state",
    "srv  handle_sleep: server is entering sleeping state",
)


def sleeps(text: str) -> list[Trust]:
    found = read_text(io.BytesIO((START + text).encode()), "server.log").evidence
    facts = [(item, fact_of(item, LogFact)) for item in found]
    return [item.trust for item, fact in facts if fact is not None and fact.event == "enter-sleep"]


def test_the_servers_own_lines_count() -> None:
    assert sleeps(f"0.15.400.000 I {QUEUE}\n0.15.400.200 I {CONTEXT}\n") == [Trust.SERVER, Trust.SERVER]
    assert sleeps(f"0.15.400.000 I {QUEUE}\n") == [Trust.SERVER]


@pytest.mark.parametrize(
    "text",
    [
        f"0.05.900.000 I {QUEUE}\n0.05.900.200 I {CONTEXT}\n",
        f"0.05.150.000 I {QUEUE}\n0.05.150.200 I {CONTEXT}\n",
        f"0.05.150.000 I {QUEUE}\n",
        f"{QUEUE}\n{CONTEXT}\n",
        f'{{"type":"log","time":15400000,"level":"info","msg":"{QUEUE}"}}\n',
        '{"timestamp":1,"level":"INFO","function":"start_loop","message":"entering sleeping state"}\n',
    ],
    ids=["too soon", "stamped before the task it follows", "alone and before", "bare", "F6", "F1"],
)
def test_lines_that_cannot_be_the_servers_are_client_text(text: str) -> None:
    assert set(sleeps(text)) <= {Trust.CLIENT}


@pytest.mark.parametrize(
    "text",
    [
        f'0.15.400.000 D srv  log_server_r: request: {{"prompt":"\\n0.15.400.000 I {QUEUE}\\n"}}\n',
        f"0.15.400.000 I srv  log_server_r: done request: GET /{QUEUE} 127.0.0.1 404\n",
        f"0.15.400.000 D slot update_slots: id  0 | task 7 | prompt: 0.15.400.000 I {QUEUE}\n",
    ],
    ids=["JSON body", "access line", "prompt"],
)
def test_the_phrase_inside_a_line_is_no_sleep(text: str) -> None:
    assert sleeps(text) == []


def test_stamps_that_begin_anew_are_no_contradiction() -> None:
    again = "0.00.000.278 I srv          init: initializing ...\n"
    text = f"{again}0.02.400.000 I {QUEUE}\n0.02.400.200 I {CONTEXT}\n"
    assert set(sleeps(text)) == {Trust.SERVER}
