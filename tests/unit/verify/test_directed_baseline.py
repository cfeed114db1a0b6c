"""Two awake answers before anything is held; without them a try says nothing, and it says why."""

from types import SimpleNamespace

import pytest
from directed_stub import SIGNAL, FakeServer

from collector.lab.reference.client import Answer, Request
from collector.lab.verify.directed import attempt as attempts
from collector.lab.verify.directed.ending import Attempt, Seen
from collector.lab.verify.directed.points import BY_NAME

PLACES = SimpleNamespace(learn=lambda _: {"p": [1]}, symbol=lambda _: "p")


def answer(status=200, body=b'{"content":"a"}', error=None):
    return SimpleNamespace(waiting=False, answer=Answer("/completion", status, body, error, 0.0, 0.1))


class Server(FakeServer):
    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)
        self.sent = []

    def begin(self, request):
        self.sent.append(request.route)
        return self.answers.pop(0)


def observed(monkeypatch, point, *answers):
    """Everything up to the hold, which is recorded; touches are answered first."""
    held = []
    monkeypatch.setattr(attempts, "insert", lambda *_: ["1"])
    monkeypatch.setattr(attempts, "_hold", lambda *_: held.append("held"))
    monkeypatch.setattr(attempts, "_wake_it", lambda *_: held.append("woken"))
    server = Server(*(each for one in answers for each in (answer(), one)))
    this = Attempt(BY_NAME[point], Request("POST", "/completion", {}), server, Seen())
    attempts._observe(this, PLACES)
    return this, held


def test_a_held_request_is_compared_with_two_awake_answers(monkeypatch):
    other = answer(body=b'{"content":"b"}')
    this, held = observed(monkeypatch, "before-post", answer(), other)
    assert held == ["held"]
    assert (this.again.body, this.awake.body) == (b'{"content":"a"}', b'{"content":"b"}')


def test_a_request_to_a_sleeping_server_has_one_before_its_breakpoint_and_one_at_it(monkeypatch):
    this, held = observed(monkeypatch, "token-count", answer())
    assert held == ["woken"]
    assert this.awake is not None


@pytest.mark.parametrize("good", [0, 1])
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (answer(500), "with 500"),
        (answer(404), "with 404"),
        (answer(None, error="TimeoutError"), "with TimeoutError"),
    ],
)
def test_without_either_of_them_nothing_is_held(monkeypatch, good, bad, said):
    this, held = observed(monkeypatch, "before-post", *[answer()] * good, bad)
    assert held == []
    assert said in this.seen.notes[-1]
    assert this.seen.outcome == ("refused" if "404" in said else "inconclusive")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ('*stopped,reason="exited-signalled",signal-name="SIGKILL"', "ended from outside by SIGKILL"),
        ('*stopped,reason="exited-signalled",signal-name="SIGTERM"', "ended from outside by SIGTERM"),
        (SIGNAL % ("SIGSEGV", 3, 3), "awake server crashed (SIGSEGV)"),
        ('*stopped,reason="exited",exit-code="01"', "ended by itself with status 1"),
    ],
)
def test_an_end_in_the_awake_measurement_is_named_and_never_counted(monkeypatch, event, said):
    # GIVEN a server that ends while its awake answer is waited for, and a connection that breaks first
    broken = answer(None, error="ConnectionResetError")
    server = Server(answer(), broken)
    looks = []

    def look(number):
        looks.append(number)
        if len(looks) == 4:
            server.gdb.happen(event)

    server.before_look = look
    monkeypatch.setattr(attempts, "_hold", lambda *_: pytest.fail("nothing may be held"))
    this = Attempt(BY_NAME["before-post"], Request("POST", "/completion", {}), server, Seen())
    # WHEN observed
    attempts._observe(this, PLACES)
    # THEN
    assert (this.seen.outcome, this.seen.reached, this.seen.judgement) == ("inconclusive", False, None)
    (note,) = this.seen.notes
    assert note.startswith("in the awake measurement the ")
    assert said in note
