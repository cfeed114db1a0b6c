"""A real journald: lines as a service prints them, forged ones, its rate limit, a restart of the reader."""

from __future__ import annotations

import importlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.sources.follow.journal import JournalStream
from collector.sources.follow.journal_open import Journal

sys.path.insert(0, str(Path(__file__).parent))
journals, live = importlib.import_module("journals"), importlib.import_module("livejournal")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        bool(journals.MISSING) or os.geteuid() != 0 or not live.JOURNALD.exists(),
        reason="NO LIVE JOURNAL IS TESTED: needs root, systemd-journald and systemd-python",
    ),
]
LINE = "0.01.002.003 I slot launch_slot_: id  0 | task {} | processing task, is_child = 0\n"
DEADLINE = 20.0
LIAR = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
    "s.connect(f'/run/systemd/journal.{sys.argv[1]}/socket'); s.send(sys.argv[2].encode())"
)


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    settings = getattr(request, "param", "RateLimitIntervalSec=0\n")
    try:
        with live.namespace(settings) as name:
            yield name
    except live.JournaldError as problem:
        pytest.skip(f"NO LIVE JOURNAL IS TESTED: {problem}")


def stream(name: str, cursor: str | None = None) -> JournalStream:
    def wanted(pid: int | None, unit: str | None) -> bool:
        return unit == "llama.service"

    return JournalStream(Journal(namespace=name), wanted, since=0.0, cursor=cursor)


def until(source: JournalStream, done: Callable[[], bool], take: Callable[[object], None]) -> None:
    end = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < end, f"nothing came: {source.health()}"
        descriptor = source.fileno()
        select.select([descriptor] if descriptor is not None else [], [], [], 0.1)
        batch = source.poll()
        take(batch)


def test_lines_come_in_order_and_once_over_a_restart_of_the_reader(namespace: str) -> None:
    tasks: list[int] = []
    gaps: list[object] = []

    def take(batch: object) -> None:
        tasks.extend(one.data["task_id"] for one in batch.evidence)
        gaps.extend(batch.gaps)

    service = live.output(namespace, "llama.service")
    first = stream(namespace)
    service.sendall("".join(LINE.format(number) for number in range(500)).encode())
    until(first, lambda: len(tasks) >= 500, take)
    cursor = first.poll().cursor
    first.close()
    service.sendall("".join(LINE.format(number) for number in range(500, 700)).encode())
    second = stream(namespace, cursor)
    until(second, lambda: len(tasks) >= 700, take)
    assert tasks == list(range(700))
    assert gaps == []
    assert second.seen()[str(os.getpid())].lines == 200


def test_a_client_that_claims_to_be_the_server_is_not_believed(namespace: str) -> None:
    # GIVEN another process's native message that claims the unit and a PID, then a true line
    text = LINE.format(666).strip()
    words = f"MESSAGE={text}\nUNIT=llama.service\nSYSLOG_PID={os.getpid()}\n_SYSTEMD_UNIT=llama.service\n"
    subprocess.run([sys.executable, "-c", LIAR, namespace, f"{words}_PID={os.getpid()}\n"], check=True)
    tasks: list[int] = []
    source = stream(namespace)
    live.output(namespace, "llama.service").sendall(LINE.format(1).encode())

    def take(batch: object) -> None:
        tasks.extend(one.data["task_id"] for one in batch.evidence)

    # THEN only what journald itself attributes to the unit is told
    until(source, lambda: 1 in tasks, take)
    assert tasks == [1]
    assert [one.lines for one in source.seen().values()] == [1]


@pytest.mark.parametrize(
    "namespace", ["RateLimitIntervalSec=1s\nRateLimitBurst=50\n"], indirect=True, ids=["limited"]
)
def test_what_the_rate_limit_left_out_is_counted(namespace: str) -> None:
    service = live.output(namespace, "llama.service")
    source = stream(namespace)
    told: list[str] = []

    def take(batch: object) -> None:
        told.extend(f"{gap.what}: {gap.why}" for gap in batch.gaps)
        if not told:  # journald tells of it with the next line that passes
            service.sendall(LINE.format(0).encode())

    service.sendall("".join(LINE.format(number) for number in range(5000)).encode())
    until(source, lambda: bool(told), take)
    assert "rate limit left out" in told[0]
    assert source.health().lost > 100
