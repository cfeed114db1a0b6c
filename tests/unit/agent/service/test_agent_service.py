"""What the agent tells its supervisor, and its own log."""

from __future__ import annotations

import io
import json
import os
import socket

import pytest

from collector.agent.service.journal_log import MAX_VALUE, REPEAT_SECONDS, Log
from collector.agent.service.notify import Notifier


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(str(tmp_path / "notify"))
        link.settimeout(5)
        yield link, {"NOTIFY_SOCKET": str(tmp_path / "notify")}


def test_readiness_and_the_sign_of_life_reach_the_manager(manager):
    link, environ = manager
    notifier = Notifier(environ)
    notifier.ready("3 servers\nand a forged line READY=0")
    assert link.recv(4096) == b"READY=1\nSTATUS=3 servers and a forged line READY=0"
    notifier.alive()
    assert link.recv(4096) == b"WATCHDOG=1"
    notifier.reloading(1.5)
    assert link.recv(4096) == b"RELOADING=1\nMONOTONIC_USEC=1500000"
    notifier.stopping()
    assert link.recv(4096) == b"STOPPING=1"


def test_an_abstract_socket_is_meant_by_an_at_sign():
    name = f"llama-blackbox-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind("\0" + name)
        link.settimeout(5)
        Notifier({"NOTIFY_SOCKET": "@" + name}).alive()
        assert link.recv(4096) == b"WATCHDOG=1"


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all"])
def test_without_a_manager_nothing_happens(address):
    Notifier({"NOTIFY_SOCKET": address}).ready("x")


def test_a_manager_that_does_not_read_does_not_hold_the_agent(manager):
    _link, environ = manager
    notifier = Notifier(environ)
    for _ in range(5000):
        notifier.status("x" * 400)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_kept_only_when_it_is_ours(told, seconds):
    assert Notifier(told).watchdog_seconds == seconds


def lines(stream: io.StringIO) -> list[tuple[str, dict[str, object]]]:
    told = stream.getvalue().splitlines()
    return [(line[:3], json.loads(line[3:])) for line in told]


def test_a_line_is_one_json_object_with_its_priority():
    stream = io.StringIO()
    Log(stream=stream).warning("probe-failed", "no answer", port=8080, model=None)
    assert lines(stream) == [
        ("<4>", {"level": "warning", "event": "probe-failed", "message": "no answer", "port": 8080})
    ]


def test_hostile_values_are_one_bounded_line():
    stream = io.StringIO()
    Log(stream=stream).error("x", "a\n<0>forged\x1b[31m", name="y" * 100_000)
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue()) < MAX_VALUE * 2


def test_what_is_below_the_level_is_not_said():
    stream = io.StringIO()
    log = Log("warning", stream=stream)
    log.info("x", "y")
    log.debug("x", "y")
    assert stream.getvalue() == ""


def test_a_repeated_complaint_is_said_once_a_minute_with_its_count():
    stream, now = io.StringIO(), [0.0]
    log = Log(stream=stream, mono=lambda: now[0])
    for _ in range(10):
        log.warning("x", "the same")
    log.warning("x", "another")
    assert len(lines(stream)) == 2
    now[0] += REPEAT_SECONDS
    log.warning("x", "the same")
    assert lines(stream)[-1][1]["suppressed"] == 9


def test_a_log_that_cannot_be_written_stops_nothing():
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    Log(stream=Full()).error("x", "y")
