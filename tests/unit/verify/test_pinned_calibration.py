"""What is measured on an awake server before anything is pinned, and when that is not enough."""

import signal
from types import SimpleNamespace

import pytest

from analyzers.errors import UserError
from collector.lab.reference import Answer, Ending
from collector.lab.reference.output import Line
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.pinned.calibration import (
    MEASUREMENTS,
    NO_WINDOW,
    calibrate,
    taken_up_since,
)
from collector.lab.verify.pinned.shapes import shapes_for

POST = shapes_for("D3", unpoisoned=False)[0]
READER = shapes_for("D2", unpoisoned=False)[0]
COUNT = shapes_for("D1", unpoisoned=False)[0]


class Server:
    """Answers every request after scripted seconds, and logs when its first task was taken up."""

    def __init__(self, seconds=0.5, posted=0.2, plain=0.02, bodies=None, status=200, ending=None):
        self.seconds, self.posted, self.plain, self.status = seconds, posted, plain, status
        self.bodies = bodies
        self.clock = 100.0
        self.log = []
        self.sent = []
        self.spec = None
        self.down = False
        self.output = SimpleNamespace(lines=lambda: list(self.log))
        self.ending, self.dumping, self.finished = ending, False, ending is not None

    def start(self, spec):
        self.spec = spec
        return self

    def take_down(self):
        self.down = True

    def send(self, request):
        return None

    def begin(self, request):
        self.sent.append(request)
        self.clock += 10
        whole = "json_schema" in (request.body or {})
        taken = self.posted if whole else self.plain
        if taken is not None:
            self.log.append(
                Line("slot launch_slot_: id 0 | task 1 | processing task", 0.0, self.clock + taken)
            )
        body = self.bodies.pop(0) if self.bodies else b'{"content": "ok"}'
        answer = Answer(request.route, self.status, body, None if self.status else "TimeoutError",
                        self.clock, self.clock + self.seconds)  # fmt: skip
        return SimpleNamespace(wait=lambda _: answer)

    def wait_until(self, condition, deadline):
        return condition(self)


@pytest.fixture
def spec(tmp_path):
    return ServerSpec(tmp_path / "m.gguf", binary=tmp_path / "llama-server", idle_seconds=1)


def test_a_readers_window_comes_from_its_own_awake_time(spec):
    server = Server(seconds=0.5)
    awake = calibrate(server, spec, READER)
    assert awake.problem is None
    assert awake.window.aim == pytest.approx(0.2)
    assert server.spec.idle_seconds == -1
    assert server.spec.poisoned
    assert server.down


def test_the_window_before_the_post_lies_between_the_twins_post_and_its_own(spec):
    awake = calibrate(Server(posted=0.2, plain=0.02), spec, POST)
    assert 0.02 < awake.window.begin < awake.window.end < 0.2
    assert not Server().spec


def test_a_machine_without_a_window_is_measured_again_before_it_is_given_up(spec):
    server = Server(posted=0.021, plain=0.02)
    awake = calibrate(server, spec, POST)
    assert awake.problem == NO_WINDOW
    sends = sum("json_schema" in request.body for request in server.sent)
    assert sends % MEASUREMENTS == 0
    assert sends > MEASUREMENTS


def test_a_build_that_does_not_say_when_it_takes_up_a_task_has_no_such_window(spec):
    assert calibrate(Server(posted=None, plain=None), spec, POST).problem == NO_WINDOW


@pytest.mark.parametrize("other", [0, 1])
def test_awake_answers_that_differ_are_both_kept_to_compare_with(spec, other):
    """A user's own model may draw at random: its crashes are still crashes."""
    bodies = [b'{"content": "a"}'] * 3
    bodies[other] = b'{"content": "b"}'
    awake = calibrate(Server(bodies=bodies), spec, READER)
    assert awake.problem is None
    assert {awake.answer.body, awake.again.body} == {b'{"content": "a"}', b'{"content": "b"}'}
    # and where all say the same there is nothing else to compare with
    assert calibrate(Server(), spec, READER).again is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_in_the_awake_measurement_is_named_and_ends_the_run(spec, number):
    server = Server(status=None, ending=Ending(number, None, 0.0, 0.0))
    with pytest.raises(UserError, match=f"in the awake measurement .*{number.name}") as told:
        calibrate(server, spec, READER)
    assert "another process" in str(told.value) or "out of memory" in str(told.value)
    assert "memory" in told.value.remedy
    assert server.down


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (Ending(signal.SIGSEGV, None, 0.0, 0.0), "awake server crashed (SIGSEGV), no sleep being near"),
        (Ending(None, 3, 0.0, 0.0), "ended by itself with status 3"),
    ],
)
def test_an_awake_server_that_dies_by_itself_is_no_sleep_defect(spec, ending, said):
    awake = calibrate(Server(status=None, ending=ending), spec, READER)
    assert said in awake.problem
    assert awake.window is None


def test_an_end_after_good_answers_is_no_measurement_either(spec):
    awake = calibrate(Server(ending=Ending(signal.SIGSEGV, None, 0.0, 0.0)), spec, READER)
    assert "crashed" in awake.problem


def test_a_request_the_awake_server_does_not_answer_is_named(spec):
    assert "TimeoutError" in calibrate(Server(status=None), spec, READER).problem


def test_a_request_to_a_sleeping_server_needs_no_window(spec):
    awake = calibrate(Server(seconds=0.001), spec, COUNT)
    assert (awake.window, awake.problem) == (None, None)


@pytest.mark.parametrize("status", [400, 401, 500, 501])
def test_a_token_count_the_awake_server_refuses_can_show_nothing(spec, status):
    """The same refusal from the woken server would look like a right answer."""
    assert f"with {status}" in calibrate(Server(status=status), spec, COUNT).problem
    # a long prompt is read before it is refused for its length
    assert calibrate(Server(status=status, seconds=0.5), spec, READER).problem is None


def test_a_build_without_the_route_is_left_to_its_trials_to_say(spec):
    assert calibrate(Server(status=404), spec, COUNT).problem is None


def test_awake_requests_draw_nothing_at_random(spec):
    server = Server()
    calibrate(server, spec, READER)
    assert all(request.body["temperature"] == 0.0 for request in server.sent)


def test_only_tasks_taken_up_after_the_moment_count():
    server = Server()
    server.log = [
        Line("processing task", 0.0, 1.0),
        Line("other", 0.0, 2.0),
        Line("processing task", 0.0, 3.0),
    ]
    assert taken_up_since(server, 0.0) == 1.0
    assert taken_up_since(server, 1.0) == 3.0
    assert taken_up_since(server, 3.0) is None
