"""Native reference builds on real trials: the stock ones show their defects, the fixed ones do not.

Nothing is compiled here: a build that is not in the cache is skipped, with the line that makes it.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from dataclasses import replace

import pytest

from collector.lab.faults.pinning import pin
from collector.lab.faults.prompts import count_tokens, long_tokenize, stranding, touch
from collector.lab.faults.slow_work import CONTEXT, WIDE
from collector.lab.native.asan import read_report
from collector.lab.native.build import Recipe, find_build
from collector.lab.reference import ServerSpec, cached_model
from collector.lab.reference.client import Request
from collector.lab.reference.conditions import ENTERING, asleep, exited, sleeps
from collector.lab.verify.identity import identify_native

pytestmark = pytest.mark.real

SLEEP_DEADLINE = 20.0
DEATH_DEADLINE = 60.0
# Of the sleep after the last request: the idle limit is over by then, the loop's own wait is one second.
PROMPT_SECONDS = 2.5
READ_AFTER_BARRIER = Recipe(11138, "read-after-barrier")
COUNT_REQUESTS = Recipe(11368, "count-requests")


def spec_of(recipe: Recipe, **changes) -> ServerSpec:
    made = find_build(recipe)
    if made is None:
        fix = f" --fix {recipe.fix}" if recipe.fix else ""
        asan = " --asan" if recipe.asan else ""
        pytest.skip(
            f"not compiled here; run: llama-blackbox reference build --build {recipe.build}{fix}{asan}"
        )
    return ServerSpec(
        cached_model(), binary=made.binary, environment=made.environment, idle_seconds=1, **changes
    )


def let_sleep(server) -> None:
    """Wait for the next sleep, to its end."""
    assert server.wait_until(asleep, SLEEP_DEADLINE)


@pytest.mark.parametrize(
    ("recipe", "mark"),
    [
        (Recipe(11138), "affected"),
        (READ_AFTER_BARRIER, "fixed"),
        (Recipe(11368), "fixed"),
        (COUNT_REQUESTS, "fixed"),
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_native_build_says_its_number_and_shows_its_mark(recipe: Recipe, mark: str) -> None:
    subject = identify_native(spec_of(recipe).binary)
    assert subject.build == recipe.build
    assert subject.marks["D1"] == mark


def test_the_stock_base_has_d1(lab) -> None:
    server = lab.start(spec_of(Recipe(11138), poisoned=True))
    let_sleep(server)
    assert server.send(count_tokens()).status is None
    assert server.wait_until(exited, DEATH_DEADLINE)
    assert server.ending.signal is not None


def counted_asleep(server, times: int) -> int:
    """How many of ``times`` token counts to the sleeping server are answered as by the awake one."""
    right = server.send(count_tokens())
    assert right.status == 200
    same = 0
    for _ in range(times):
        let_sleep(server)
        answer = server.send(count_tokens())
        same += (answer.status, answer.body) == (200, right.body)
    return same


def test_reading_after_the_barrier_ends_d1(lab) -> None:
    assert counted_asleep(lab.start(spec_of(READ_AFTER_BARRIER, poisoned=True)), 2) == 2


@pytest.mark.full
def test_reading_after_the_barrier_ends_d1_in_twenty_of_twenty(lab) -> None:
    assert counted_asleep(lab.start(spec_of(READ_AFTER_BARRIER, poisoned=True)), 20) == 20


def pinned_answer(server, request, offset: float):
    """Pin the moment of sleep into ``request``; the answer, once the server has slept after it.

    Raises AssertionError when the server slept before the request, or does not sleep soon after it.
    """
    pinned = pin(server, request, offset)
    before = server.transitions(ENTERING)
    assert not pinned.early
    answer = pinned.pending.wait(request.timeout)
    assert answer is not None
    assert server.wait_until(sleeps(before + 1), SLEEP_DEADLINE)
    slept = [line for line in server.output.lines() if ENTERING in line.text][-1]
    return answer, slept.mono - answer.ended


def test_counting_requests_keeps_a_reader_awake_and_sleeps_after_it(lab) -> None:
    """GIVEN the sleep pinned into a long tokenize WHEN it ends THEN it is right, and the server sleeps."""
    server = lab.start(spec_of(COUNT_REQUESTS, poisoned=True))
    right = server.send(long_tokenize())
    let_sleep(server)
    answer, slept_after = pinned_answer(server, long_tokenize(), 0.1)
    assert (answer.status, answer.body) == (200, right.body)
    assert slept_after < PROMPT_SECONDS
    assert server.send(touch()).status == 200  # and it wakes again


def test_counting_requests_strands_no_task(lab) -> None:
    server = lab.start(spec_of(COUNT_REQUESTS, poisoned=True))
    answer, slept_after = pinned_answer(server, stranding(SLEEP_DEADLINE), 0.02)
    assert answer.status == 200
    assert slept_after < server.spec.idle_seconds + PROMPT_SECONDS


def test_a_stream_keeps_the_server_awake_and_its_lost_client_does_not(lab) -> None:
    """GIVEN a stream that outlasts the idle limit WHEN its client hangs up THEN the server sleeps."""
    server = lab.start(replace(spec_of(COUNT_REQUESTS), model=cached_model(WIDE), context=CONTEXT))
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        body = json.dumps({"prompt": "hello", "n_predict": -1, "stream": True, "ignore_eos": True})
        head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall((head + body).encode())
        end = time.monotonic() + 2.5 * server.spec.idle_seconds
        while time.monotonic() < end:
            assert client.recv(65_536), "the stream ended before the idle limit did"
        assert server.transitions(ENTERING) == 0
    let_sleep(server)
    assert not server.finished
    assert server.send(touch()).status == 200


def test_a_refused_request_and_a_client_that_gave_up_do_not_stay_counted(lab) -> None:
    server = lab.start(spec_of(COUNT_REQUESTS))
    assert server.post("/completion", {"prompt": 1.5}).status >= 400
    assert server.send(Request("POST", "/tokenize", raw=b"{")).status >= 400  # throws behind the barrier
    payload = long_tokenize().payload()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        head = f"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(payload)}\r\n\r\n"
        client.sendall(head.encode() + payload)
    let_sleep(server)
    assert server.send(touch()).status == 200


def test_probes_that_bypass_the_barrier_neither_wake_nor_count(lab) -> None:
    server = lab.start(spec_of(COUNT_REQUESTS))
    let_sleep(server)
    before = server.transitions(ENTERING)
    assert [server.get(route).status for route in ("/health", "/props", "/metrics")] == [200, 200, 200]
    assert asleep(server)
    assert server.transitions(ENTERING) == before


def report_of(server):
    """What AddressSanitizer said in the log of a server that ended."""
    assert server.wait_until(exited, DEATH_DEADLINE)
    report = read_report("\n".join(line.text for line in server.output.lines()))
    assert report is not None
    return report


def test_asan_names_who_read_and_who_freed_in_d1(lab) -> None:
    server = lab.start(spec_of(Recipe(11138, asan=True)))
    let_sleep(server)
    assert server.send(count_tokens()).status is None
    report = report_of(server)
    assert (report.kind, report.access) == ("heap-use-after-free", "READ")
    assert report.used.context == "under handle_count_tokens"
    assert report.freed.actor == "llama_model_deleter"
    assert report.freed.context == "under server_context_impl::destroy in the queue loop"
    assert server.ending.signal == signal.SIGABRT


@pytest.mark.parametrize(
    "recipe",
    [Recipe(11138, "read-after-barrier", True), Recipe(11368, asan=True)],
    ids=lambda each: each.name,
)
def test_asan_names_who_read_and_who_freed_in_d2(lab, recipe) -> None:
    """GIVEN the sleep pinned into a tokenize WHEN the model is freed under it THEN both sides are named."""
    server = lab.start(spec_of(recipe))
    assert pin(server, long_tokenize(), 0.1).pending.wait(DEATH_DEADLINE).status is None
    report = report_of(server)
    assert report.kind == "heap-use-after-free"
    assert report.used.context == "under a route handler"
    assert report.freed.context == "under server_context_impl::destroy in the queue loop"


def test_asan_has_nothing_to_say_of_a_counted_request(lab) -> None:
    server = lab.start(spec_of(Recipe(11368, "count-requests", True)))
    answer, slept_after = pinned_answer(server, long_tokenize(), 0.1)
    assert answer.status == 200
    assert slept_after < PROMPT_SECONDS
    assert read_report("\n".join(line.text for line in server.output.lines())) is None


@pytest.mark.parametrize("recipe", [Recipe(11138, "read-after-barrier", True)], ids=["read-after-barrier"])
def test_asan_has_nothing_to_say_of_the_fixed_build(lab, recipe) -> None:
    server = lab.start(spec_of(recipe))
    assert counted_asleep(server, 2) == 2
    assert read_report("\n".join(line.text for line in server.output.lines())) is None
