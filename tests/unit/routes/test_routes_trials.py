"""From what was seen to a trial: retries, outcomes, judging."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from analyzers.contracts.trials import Judgement, Signature
from collector.lab.reference.client import Answer, Request
from collector.lab.reference.processes import Ending
from collector.lab.verify.routes import trials
from collector.lab.verify.routes.promises import promise_of
from collector.lab.verify.routes.rightness import Baseline
from collector.lab.verify.routes.seat import Seat
from collector.lab.verify.routes.shots import Shot
from collector.lab.verify.routes.table import chosen_routes
from collector.lab.verify.routes.timer import Timed
from collector.lab.verify.routes.trials import TRIES, Workshop, attempt
from collector.lab.verify.routes.wide import Widths

(COMPLETION,) = chosen_routes(("POST /completion",))
(HEALTH,) = chosen_routes(("GET /health",))
SEGV = Ending(11, None, 0.0, 0.0, True)


def answer(body=None, status=200, seconds=0.1):
    return Answer("/x", status, json.dumps(body or {}).encode(), None, 0.0, seconds)


@dataclass
class Pending:
    """``late``: the answer that comes once the server was woken."""

    request: Request
    answer: Answer | None = None
    late: Answer | None = None

    def wait(self, timeout):
        return self.answer or self.late


@dataclass
class Server:
    folder: Path
    ending: Ending | None = None
    finished: bool = False
    sleeping: bool = False
    woken: int = 0
    sent: list = field(default_factory=list)
    port: int = 1

    def transitions(self, phrase):
        return self.woken

    def send(self, request):
        self.sent.append(request.route)
        return answer()

    def get(self, route, timeout=None):
        return answer()


@pytest.fixture
def server(tmp_path):
    (tmp_path / "server").mkdir()
    return Server(tmp_path / "server")


@pytest.fixture
def bench(server, monkeypatch):
    """A seat with ``server`` on it, and shots that come out as the test says."""
    monkeypatch.setattr(trials, "fall_asleep", lambda _: True)
    monkeypatch.setattr(trials, "asleep", lambda each: each.sleeping)
    monkeypatch.setattr(trials, "asleep_by_props", lambda each: each.sleeping)

    @dataclass
    class Bench:
        workshop: Workshop
        seat: Seat
        left: int = 0

        def shoot(self, state, *shots):
            waiting = list(shots)
            monkeypatch.setitem(trials.SHOTS, state, lambda *_: waiting.pop(0))

        def attempt(self, route, state):
            return attempt(self.workshop, self.seat, route, state)

    made = Bench(Workshop(promise_of(11549), Widths()), Seat.__new__(Seat))
    made.seat.awake = {
        COMPLETION.name: Baseline(answer({"content": "ok"}), True),
        HEALTH.name: Baseline(answer({"status": "ok"}), True),
    }
    made.seat.get = lambda: server

    def leave():
        made.left += 1

    made.seat.leave = leave
    return made


def shot(route, given, reached=True, woken=0, late=None, **more):
    return Shot(Pending(route.request(), given, late), reached, woken, "missed it", **more)


def judged_as(monkeypatch, defect):
    seen = []

    def judge(provoked, folder):
        assert (folder / "bundle").is_dir()
        seen.append(provoked)
        return Judgement(class_="SEGV-UAF-SLEEP", defect=defect), Signature(bug_key="key")

    monkeypatch.setattr(trials, "judge", judge)
    monkeypatch.setattr(
        trials, "closed", lambda name, expected, server, outcome, **more: _Closed(server, outcome)
    )
    return seen


@dataclass
class _Closed:
    server: Server
    outcome: str

    @property
    def ending(self):
        return self.server.ending


def test_an_answered_task_that_woke_the_server_kept_its_promise(bench, server):
    server.woken = 1
    bench.shoot("asleep", shot(COMPLETION, answer({"content": "ok"})))

    trial = bench.attempt(COMPLETION, "asleep")

    assert (trial.outcome, trial.wakes, trial.promise, trial.right) == ("answered", True, "kept", "yes")
    assert (trial.tries, trial.reached, trial.status, trial.seconds) == (1, True, 200, 0.1)


def test_a_silent_call_that_woke_the_server_broke_it(bench, server):
    server.woken = 1
    bench.shoot("asleep", shot(HEALTH, answer({"status": "ok"})))

    assert bench.attempt(HEALTH, "asleep").promise == "broken"


def test_a_wake_from_before_the_request_is_not_its_own(bench, server):
    server.woken, server.sleeping = 3, True
    bench.shoot("unloading", shot(HEALTH, answer({"status": "ok"}), woken=3))

    trial = bench.attempt(HEALTH, "unloading")

    assert (trial.wakes, trial.promise) == (False, "kept")


def test_a_missed_state_is_tried_again(bench, server):
    server.sleeping = True
    missed = shot(HEALTH, answer({"status": "ok"}), reached=False)
    bench.shoot("waking", missed, missed, shot(HEALTH, answer({"status": "ok"})))

    trial = bench.attempt(HEALTH, "waking")

    assert (trial.tries, trial.reached, trial.outcome) == (3, True, "answered")


def test_a_state_that_is_never_met_says_nothing(bench, server):
    bench.shoot("waking", *[shot(HEALTH, answer({"status": "ok"}), reached=False)] * TRIES)

    trial = bench.attempt(HEALTH, "waking")

    assert (trial.tries, trial.reached, trial.outcome) == (TRIES, False, "inconclusive")
    assert (trial.promise, trial.wakes, trial.right) == ("none", None, None)
    assert trial.notes == ["missed it"]


def test_a_crash_is_judged_and_its_folder_goes(bench, server, monkeypatch):
    seen = judged_as(monkeypatch, "D1")
    server.ending, server.finished, server.woken = SEGV, True, 1
    bench.shoot("asleep", shot(COMPLETION, None))

    trial = bench.attempt(COMPLETION, "asleep")

    assert (trial.outcome, trial.defect, trial.signal) == ("crashed", "D1", 11)
    assert (trial.wakes, trial.promise) == (True, "none")
    assert [each.outcome for each in seen] == ["crash"]
    assert not server.folder.exists()
    assert bench.left


def test_a_kept_run_keeps_the_folder_of_a_crash(bench, server, monkeypatch):
    judged_as(monkeypatch, None)
    bench.workshop.keep = True
    server.ending, server.finished = SEGV, True
    bench.shoot("asleep", shot(COMPLETION, None))

    bench.attempt(COMPLETION, "asleep")

    assert server.folder.exists()


def test_a_dead_server_that_said_nothing_may_have_woken(bench, server, monkeypatch):
    judged_as(monkeypatch, None)
    server.ending, server.finished = SEGV, True
    bench.shoot("asleep", shot(COMPLETION, None))

    assert bench.attempt(COMPLETION, "asleep").wakes is None


def test_a_crash_outside_its_state_is_not_counted(bench, server, monkeypatch):
    seen = judged_as(monkeypatch, "D1")
    server.ending, server.finished = SEGV, True
    bench.shoot("waking", *[shot(COMPLETION, None, reached=False)] * TRIES)

    trial = bench.attempt(COMPLETION, "waking")

    assert (trial.outcome, trial.reached, trial.defect) == ("inconclusive", False, None)
    assert seen == []


def test_a_request_that_waits_on_a_sleeping_server_is_stranded_and_released(bench, server, monkeypatch):
    seen = judged_as(monkeypatch, None)
    server.sleeping = True
    bench.shoot("unloading", shot(COMPLETION, None, late=answer()))

    trial = bench.attempt(COMPLETION, "unloading")

    assert (trial.outcome, trial.promise) == ("stranded", "broken")
    assert seen[0].outcome == "hang"
    assert server.sent == ["/slots"]
    assert trial.notes[-1] == "released by a waking call"


def test_a_hang_that_waking_does_not_end_is_no_stranded_request(bench, server, monkeypatch):
    judged_as(monkeypatch, "D3")
    server.sleeping = True
    bench.shoot("unloading", shot(COMPLETION, None))

    trial = bench.attempt(COMPLETION, "unloading")

    assert (trial.outcome, trial.reached, trial.defect) == ("inconclusive", False, None)
    assert (trial.promise, trial.judgement) == ("none", None)
    assert "did not release it" in trial.notes[0]


def test_no_answer_from_an_awake_server_is_inconclusive(bench, server):
    bench.shoot("unloading", *[shot(COMPLETION, None)])

    assert bench.attempt(COMPLETION, "unloading").outcome == "inconclusive"


def test_the_completion_beside_it_can_be_what_goes_wrong(bench, server, monkeypatch):
    judged_as(monkeypatch, "D3")
    server.sleeping = True
    other = Pending(COMPLETION.request(), None, late=answer())
    bench.shoot("two-wakers", shot(HEALTH, answer({"status": "ok"}), other=other))

    trial = bench.attempt(HEALTH, "two-wakers")

    assert (trial.outcome, trial.defect) == ("stranded", "D3")
    assert "completion beside it" in trial.notes[0] or "completion beside it" in trial.notes[-2]


def test_a_wrong_answer_is_judged_on_the_live_server(bench, server, monkeypatch):
    seen = judged_as(monkeypatch, None)
    bench.shoot("waking", shot(COMPLETION, answer({"content": "nonsense"})))

    trial = bench.attempt(COMPLETION, "waking")

    assert (trial.outcome, trial.right) == ("wrong-answer", "no")
    assert seen[0].outcome == "wrong-answer"


@pytest.mark.parametrize(("resets", "promise"), [(False, "kept"), (True, "broken")])
def test_the_timer_is_read_while_awake(bench, monkeypatch, resets, promise):
    timed = Timed(Pending(HEALTH.request(), answer({"status": "ok"})), True, resets)
    monkeypatch.setattr(trials.timer, "time_it", lambda *_: timed)

    trial = bench.attempt(HEALTH, "awake")

    assert (trial.resets, trial.promise, trial.outcome) == (resets, promise, "answered")


def test_a_timer_that_could_not_be_read_is_tried_again_and_then_not_guessed(bench, monkeypatch):
    told = []

    def time_it(*_):
        told.append(1)
        return Timed(Pending(HEALTH.request(), answer({"status": "ok"})), True, None, "between the bounds")

    monkeypatch.setattr(trials.timer, "time_it", time_it)

    trial = bench.attempt(HEALTH, "awake")

    assert (len(told), trial.reached, trial.resets, trial.outcome) == (TRIES, False, None, "inconclusive")


def test_a_route_that_needs_a_first_sleep_gets_a_server_of_its_own(bench, server):
    (count,) = chosen_routes(("POST /v1/messages/count_tokens",))
    bench.seat.awake[count.name] = Baseline(answer({"input_tokens": 3}), True)
    bench.shoot("asleep", shot(count, answer({"input_tokens": 3})))

    bench.attempt(count, "asleep")

    assert bench.left == 1


@pytest.mark.parametrize("state", ["asleep", "unloading", "waking"])
def test_a_server_that_exits_by_a_status_is_neither_awake_nor_answered(bench, server, state):
    # GIVEN one that woke for the call and ended itself, as a sanitized one does that is not told to abort
    server.ending, server.finished, server.woken = Ending(None, 1, 0.0, 0.0, False), True, 1
    bench.shoot(state, shot(COMPLETION, None))

    trial = bench.attempt(COMPLETION, state)

    assert (trial.outcome, trial.reached, trial.wakes) == ("inconclusive", True, None)
    assert trial.notes == ["the server ended by itself with status 1"]
