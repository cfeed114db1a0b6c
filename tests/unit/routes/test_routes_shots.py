"""How a state is met, and how it is told that it was: on a scripted server."""

import time

import pytest

from collector.lab.reference.client import Answer, Request
from collector.lab.reference.conditions import ENTERING, EXITING
from collector.lab.reference.output import Line
from collector.lab.verify.routes import shots
from collector.lab.verify.routes.table import chosen_routes
from collector.lab.verify.routes.wide import Widths

(ROUTE,) = chosen_routes(("POST /tokenize",))


class Output:
    def __init__(self):
        self.told = []

    def lines(self):
        return list(self.told)


class Pending:
    def __init__(self, request, answer):
        self.request = request
        self.answer = answer

    @property
    def waiting(self):
        return self.answer is None

    def wait(self, timeout):
        return self.answer


class Server:
    """Goes to sleep and wakes when it is told to; ``took``: seconds each route's answer takes."""

    def __init__(self, took=None, finished=False):
        self.output = Output()
        self.took = took or {}
        self.finished = finished
        self.dumping = False
        self.began = []
        self.on = {}

    def say(self, phrase):
        self.output.told.append(Line(f"que start_loop: {phrase}", time.time(), time.monotonic()))

    def transitions(self, phrase):
        return sum(phrase in line.text for line in self.output.lines())

    def begin(self, request):
        self.began.append(request.route)
        self.on.get(request.route, lambda: None)()
        return Pending(request, self.send(request))

    def send(self, request):
        now = time.monotonic()
        took = self.took.get(request.route, 0.001)
        if took is None:
            return None
        return Answer(request.route, 200, b"{}", None, now, now + took)

    def get(self, route, timeout=None):
        return self.send(Request("GET", route))

    def wait_until(self, condition, deadline):
        return condition(self)


@pytest.fixture
def widths():
    return Widths()


def falling_asleep(server):
    """The server goes to sleep after the touch: the line is there when it is looked for."""
    server.send = _then(server, server.send)
    return server


def _then(server, send):
    touched = []

    def sending(request):
        answer = send(request)
        if request.route == "/completion" and not touched:
            touched.append(1)
            wait = server.wait_until

            def wait_until(condition, deadline):
                server.say(ENTERING)
                server.wait_until = wait
                return wait(condition, deadline)

            server.wait_until = wait_until
        return answer

    return sending


def test_a_request_sent_into_an_unload_that_holds_the_properties_up_has_met_it(widths):
    # GIVEN an unload of 60 ms: /props waits for it, /health does not
    server = falling_asleep(Server({"/props": 0.06}))

    shot = shots.into_unload(server, ROUTE, widths)

    assert shot.reached
    assert shot.woken == 0
    assert widths.summary().unload_ms == pytest.approx(60, abs=30)
    assert server.began.index("/tokenize") < server.began.index("/props")


def test_an_unload_that_was_over_is_not_met(widths):
    server = falling_asleep(Server({"/props": 0.001}))

    shot = shots.into_unload(server, ROUTE, widths)

    assert not shot.reached
    assert "was over" in shot.why_not
    assert widths.summary().measured == 0


def test_a_slow_machine_is_not_taken_for_an_unload(widths):
    # GIVEN a machine on which everything takes 50 ms
    server = falling_asleep(Server({"/props": 0.06, "/health": 0.05}))

    assert not shots.into_unload(server, ROUTE, widths).reached


def test_a_server_that_does_not_go_to_sleep_is_not_met(widths):
    shot = shots.into_unload(Server(), ROUTE, widths)

    assert (shot.reached, shot.why_not) == (False, "the server did not go to sleep")


def test_wakes_before_the_request_are_not_its_own(widths):
    # GIVEN a server that the touch itself woke
    server = falling_asleep(Server({"/props": 0.06}))
    server.say(EXITING)

    assert shots.into_unload(server, ROUTE, widths).woken == 1


def test_a_request_sent_into_a_reload_has_met_it(widths):
    server = Server({"/props": 0.4})
    server.on["/slots"] = lambda: server.say(EXITING)

    shot = shots.into_wake(server, ROUTE, widths)

    assert shot.reached
    assert server.began == ["/slots", "/tokenize", "/props"]
    assert widths.summary().reload_ms == pytest.approx(400, abs=100)


def test_a_waker_that_wakes_nothing_is_said(widths):
    shot = shots.into_wake(Server(), ROUTE, widths)

    assert (shot.reached, shot.why_not) == (False, "the server did not wake")


def test_two_wakers_are_sent_together(widths):
    server = Server()

    shot = shots.two_wakers(server, ROUTE, widths)

    assert shot.reached
    assert server.began == ["/tokenize", "/completion"]
    assert shot.other.request.route == "/completion"


def test_two_wakers_far_apart_are_not_at_once(widths):
    server = Server()
    server.on["/completion"] = lambda: time.sleep(2 * shots.TOGETHER)

    shot = shots.two_wakers(server, ROUTE, widths)

    assert not shot.reached
    assert "apart" in shot.why_not


def test_into_sleep_sends_one_request_and_nothing_else(widths):
    server = Server()

    assert shots.into_sleep(server, ROUTE, widths).reached
    assert server.began == ["/tokenize"]


def test_a_width_without_measurements_is_not_invented(widths):
    summary = widths.summary()

    assert (summary.unload_ms, summary.reload_ms, summary.measured) == (None, None, 0)
    assert "48,000" in summary.model


def test_widths_are_medians_in_milliseconds(widths):
    for seconds in (0.010, 0.030, 0.500):
        widths.unloaded(seconds)
    widths.reloaded(0.4)

    summary = widths.summary()

    assert (summary.unload_ms, summary.reload_ms, summary.measured) == (30.0, 400.0, 4)
