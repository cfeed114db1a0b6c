"""D1 and D2 on real servers, and their twins: the same frames, the same requests, another cause."""

from __future__ import annotations

import pytest
from e2e_ask import VERDICT, Answer, Said, ask
from e2e_scenes import DEEP
from e2e_stage import Plays

pytestmark = pytest.mark.real
D2_PHASES = ("unloading", "asleep")


def test_d1_a_token_count_to_a_sleeping_server(plays: Plays) -> None:
    # GIVEN a server that slept, was woken by a token count and died
    play = plays("d1")
    # WHEN all that it left is read
    answer = ask(*play.inputs)
    # THEN it is D1, and proven where the kernel's own stamp stands against the queue's memory
    sure = "proven" if play.left_core and play.kernel_spoke else "strong"
    want = Said("SEGV-UAF-SLEEP", "D1", "wake", "first-request-after-wake", sure, "handle_count_tokens")
    assert answer.said == want
    assert answer.status == VERDICT
    assert sure == "proven" or "kernel" in answer.gaps
    assert (answer.report.process.signal, answer.report.process.pid) == ("SIGSEGV", play.pid)
    assert answer.report.signature.bug_key == "SEGV-UAF-SLEEP|D1|handle_count_tokens"


def test_d1_tells_its_margin_its_build_and_its_threads(plays: Plays) -> None:
    play = plays("d1")
    answer = ask(play.bundle, play.core)
    if play.kernel_spoke:
        told = [line for line in answer.report.verdict.reasons if "kernel" in line]
        assert any("wake" in line or "woken" in line for line in told), answer.reasons
    assert answer.report.process.build == "b11063"
    first, second = answer.report.threads[:2]
    assert (first.crashed, second.role) == (True, "queue-loop")
    assert any(frame.telling for frame in first.frames)
    events = [item.event for item in answer.report.timeline]
    assert events.index("enter-sleep") < events.index("exit-sleep") < events.index("exit")


def test_d1_twin_the_same_count_to_an_awake_server(plays: Plays) -> None:
    answer = ask(*plays("d1-awake").inputs)
    assert answer.said == Said("NO-FAULT", None, "supervisor", "stopping", "strong")
    assert answer.status == VERDICT


def test_d1_twin_the_same_handler_of_the_same_build_dies_of_its_own_content(plays: Plays) -> None:
    # GIVEN the defective handler on the stack, a sleep and a wake in the same log, and a reader's frames
    play = plays("d1-overflow")
    assert b"exiting sleeping state" in play.log.read_bytes()
    # WHEN / THEN only the recursion over the request's own text tells
    answer = ask(play.bundle, play.core)
    assert answer.said == Said("SEGV-STACK", None, "request", "awake", "strong", "handle_count_tokens")


def is_d2(answer: Answer, handler: str) -> bool:
    said = answer.said
    same = (said.class_, said.defect, said.cause, said.handler) == ("SEGV-UAF-SLEEP", "D2", "sleep", handler)
    return same and said.phase in D2_PHASES and answer.status == VERDICT


@pytest.mark.parametrize(
    ("name", "handler"), [("d2-completion", "handle_completions_impl"), ("d2-tokenize", "tokenize")]
)
def test_d2_sleep_falls_into_a_reading_request(plays: Plays, name: str, handler: str) -> None:
    # GIVEN a server that went to sleep while a request was being tokenised
    play = plays(name)
    # WHEN the core is read with everything, with the bare log, and alone
    whole, logged, alone = ask(play.bundle, play.core), ask(play.core, play.log), ask(play.core)
    # THEN it is D2 each time, by the loop thread of that very core
    for answer in (whole, logged, alone):
        assert is_d2(answer, handler), answer.said
        assert answer.said.confidence in ("proven", "strong")
        assert "loop" in answer.reasons
    assert whole.report.process.build == "b11549"
    assert whole.report.signature.bug_key == f"SEGV-UAF-SLEEP|D2|{handler}"


def test_d2_is_proven_by_its_core_unless_the_allocator_stands_between(plays: Plays) -> None:
    answers = [ask(plays(name).core) for name in ("d2-completion", "d2-tokenize")]
    for answer in answers:
        crashed = answer.report.threads[0].frames
        in_allocator = any("malloc" in (frame.function or "") for frame in crashed[:4])
        assert answer.said.confidence == ("strong" if in_allocator else "proven")


def test_d2_as_an_endless_recursion_is_no_plain_stack_overflow(plays: Plays) -> None:
    # GIVEN a D2 crash that the kernel calls a stack overflow
    play = plays("d2-recursion")
    # WHEN
    answer = ask(play.bundle, play.core)
    # THEN the handler at the far end of the recursion is found, and the sleep in the loop thread
    handler = answer.said.handler
    assert handler in ("tokenize", "handle_completions_impl")
    assert is_d2(answer, str(handler)), answer.said
    assert answer.said.confidence == "proven"
    assert max(frame.repeat for frame in answer.report.threads[0].frames) >= DEEP
    assert "endless recursion" in answer.reasons


def test_d2_twin_the_same_request_far_from_sleep(plays: Plays) -> None:
    # GIVEN the same request before a sleep and after the wake, refused alike as too long
    play = plays("d2-far")
    assert {answer.status for answer in play.provoked.answers} == {400}
    # WHEN / THEN
    answer = ask(*play.inputs)
    assert (answer.said.class_, answer.said.defect, answer.said.cause) == ("NO-FAULT", None, "unknown")
    assert answer.status == VERDICT


@pytest.mark.parametrize(
    ("name", "handler"),
    [
        ("overflow", "handle_completions_impl"),
        ("overflow-slept", "handle_completions_impl"),
        ("overflow-tokenize", "tokenize"),
    ],
)
def test_d2_twin_a_stack_overflow_of_the_requests_own_content(plays: Plays, name: str, handler: str) -> None:
    # GIVEN an overflow under D2's own handlers on an awake server, once with an earlier sleep long past
    play = plays(name)
    # WHEN it is read with its log and alone
    for answer in (ask(play.bundle, play.core), ask(play.core)):
        # THEN the request is to blame
        assert answer.said == Said("SEGV-STACK", None, "request", "awake", "strong", handler)
        assert answer.status == VERDICT


def test_an_overflow_in_the_loops_own_thread_names_no_handler(plays: Plays) -> None:
    play = plays("overflow-grammar")
    answer = ask(play.bundle, play.core)
    assert answer.said[:2] == ("SEGV-STACK", None)
    assert (answer.said.phase, answer.said.handler) == ("awake", None)
    assert not answer.blames_sleep
