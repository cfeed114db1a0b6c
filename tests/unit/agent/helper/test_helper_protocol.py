"""What may be asked of the helper: nothing that is not on its list, however it is put."""

from __future__ import annotations

import json

import pytest

from analyzers.contracts.evidence import Incarnation
from collector.agent.helper import protocol
from collector.agent.helper.protocol import Request, found_bytes, found_of, parse_reply, parse_request
from collector.discovery.model import Ended, Found, Listening, Setting

FOUND = Found(
    Incarnation(pid=7, start_time=12.34, boot_id="b"),
    "/opt/llama-server",
    "standalone",
    listening=(Listening(port=8080, netns=5),),
    settings=(Setting("port", "8080", "command-line"),),
    args=("llama-server", "--port", "8080"),
)


@pytest.mark.parametrize("op", ["sockdiag", "outputs", "log"])
def test_a_sound_request_survives_the_way(op):
    request = Request(op, 7, 12.34, 1)
    assert parse_request(protocol.request_bytes(request)) == request


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff\x00garbage",
        b"[" * 900,
        b"[1]",
        b"{}",
        b'{"op":"open","pid":1,"start":1.0}',
        b'{"op":"log","pid":1,"start":1.0,"path":"/etc/shadow"}',
        b'{"op":"log","pid":0,"start":1.0}',
        b'{"op":"log","pid":-1,"start":1.0}',
        b'{"op":"log","pid":true,"start":1.0}',
        b'{"op":"log","pid":1,"start":NaN}',
        b'{"op":"log","pid":1,"start":1.0,"number":99}',
        b'{"op":"log","pid":1,"start":1.0,"word":"/etc/shadow"}',
        b'{"op":"waits","pid":1,"start":1.0,"word":"environ"}',
        b'{"op":"waits","pid":99999999999,"start":1.0,"word":"owned"}',
        b'{"op":"kmsg","word":"x"}',
        b'{"op":"log","pid":1,"start":1.0}' + b" " * 2000,
    ],
)
def test_anything_else_is_no_request(said):
    assert parse_request(said) is None


def test_a_server_and_its_end_survive_the_way():
    told = parse_reply(found_bytes("born", FOUND))
    assert told is not None
    assert found_of(told["born"]) == FOUND
    ended = Ended(FOUND, 1.0, 2.0, None, 11, True)
    told = parse_reply(protocol.ended_bytes("ended", ended))
    assert told is not None
    assert protocol.ended_of(told["ended"]) == ended


def test_a_server_of_a_huge_command_line_still_fits_a_packet_and_keeps_its_name():
    large = Found(**{**vars(FOUND), "args": tuple("x" * 8000 for _ in range(100))})
    data = found_bytes("born", large)
    assert len(data) <= protocol.MAX_REPLY
    found = found_of(json.loads(data)["born"])
    assert found is not None
    assert (found.incarnation, found.settings) == (FOUND.incarnation, FOUND.settings)


@pytest.mark.parametrize("said", [None, 3, {"exe": 1}, {"incarnation": {"pid": "x"}}])
def test_what_is_no_server_is_none(said):
    assert found_of(said) is None
