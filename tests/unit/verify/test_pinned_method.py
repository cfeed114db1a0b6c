"""The order of pinned trials: measured before tried, stopped when nothing further can come of it."""

from types import SimpleNamespace

import pytest

from analyzers.contracts.trials import ANSWERED, CRASHED, INCONCLUSIVE, Judgement, Trial
from analyzers.errors import UserError
from collector.lab.reference import Answer
from collector.lab.verify.pinned import method
from collector.lab.verify.pinned.calibration import NO_WINDOW, Awake
from collector.lab.verify.pinned.cli import chosen_defects
from collector.lab.verify.pinned.method import FAILED_STARTS, Choice, carry_out, explained
from collector.lab.verify.pinned.placement import Correction
from collector.lab.verify.pinned.shapes import DEFECTS, shapes_for
from collector.lab.verify.pinned.trial import inconclusive
from collector.lab.verify.pinned.windows import Window

WINDOW = Window(0.1, 0.2, 0.3)
ANSWER = Answer("/x", 200, b"{}", None, 0.0, 0.5)


class Lab:
    """Stands in for real servers: what each trial gives is scripted by shape name."""

    def __init__(self, monkeypatch, outcome=ANSWERED, problems=None, pin=True, starts=True):
        self.reached = True
        self.said, self.calibrated, self.tried = [], [], []
        self.outcome, self.problems, self.starts = outcome, problems or {}, starts
        self.pin = SimpleNamespace(correction=Correction([])) if pin else None
        self.bench = SimpleNamespace(
            lab=self,
            spec=None,
            say=self.said.append,
            chosen=SimpleNamespace(subject=SimpleNamespace(build=1)),
        )
        monkeypatch.setattr(method, "Warm", lambda *_: self)
        monkeypatch.setattr(method, "calibrate", self._calibrate)
        monkeypatch.setattr(method, "choose_pin", lambda *_: self.pin)
        monkeypatch.setattr(method, "pinned_trial", lambda warm, pin, plan: self._trial(plan))
        monkeypatch.setattr(method, "asleep_trial", lambda warm, plan: self._trial(plan))
        self.server = object() if starts else None

    def take(self, **_):
        return self.server

    def _calibrate(self, lab, spec, shape):
        self.calibrated.append(shape.name)
        problem = self.problems.get(shape.name)
        return Awake(ANSWER, 0.5, None if problem or shape.asleep else WINDOW, problem)

    def _trial(self, plan):
        self.tried.append(plan.shape.name)
        if not self.starts:
            return inconclusive(plan, "the server did not start: no")
        verdict = Judgement(**{"class": "X"}, defect=plan.shape.defect) if self.outcome == CRASHED else None
        return Trial(
            number=plan.number, defect=plan.shape.defect, route=plan.shape.route, outcome=self.outcome,
            reached=self.reached, judgement=verdict, signal=11 if verdict else None,
            seconds=0.5, trial_seconds=1.0,
        )  # fmt: skip

    def run(self, *defects, trials=6, **options):
        return list(carry_out(self.bench, Choice(defects, trials, **options)))


def test_every_defect_gets_its_trials_numbered_through(monkeypatch):
    trials = Lab(monkeypatch).run(*DEFECTS, trials=4)
    assert [trial.number for trial in trials] == list(range(1, 13))
    assert [trial.defect for trial in trials] == ["D1"] * 4 + ["D2"] * 4 + ["D3"] * 4


def test_shapes_take_turns_and_each_is_measured_once_just_before(monkeypatch):
    lab = Lab(monkeypatch)
    lab.run("D2", trials=7)
    names = [shape.name for shape in shapes_for("D2", unpoisoned=False)]
    assert lab.calibrated == names
    assert lab.tried == (names * 3)[:7]


def test_the_first_trial_does_not_wait_for_the_other_shapes_measurements(monkeypatch):
    lab = Lab(monkeypatch, outcome=CRASHED)
    trials = lab.run("D2", until_shown=True)
    assert len(trials) == 1
    assert len(lab.calibrated) == 1


def test_without_until_shown_all_trials_are_made(monkeypatch):
    assert len(Lab(monkeypatch, outcome=CRASHED).run("D2", trials=5)) == 5


def test_until_shown_does_not_stop_at_what_shows_nothing(monkeypatch):
    assert len(Lab(monkeypatch).run("D2", trials=5, until_shown=True)) == 5


def test_a_shape_without_a_window_is_said_once_and_the_others_go_on(monkeypatch):
    lab = Lab(monkeypatch, problems={"long-completion": NO_WINDOW})
    trials = lab.run("D2", trials=5)
    assert [trial.outcome for trial in trials] == [INCONCLUSIVE] + [ANSWERED] * 4
    assert trials[0].notes == [NO_WINDOW]
    assert not trials[0].reached
    assert "long-completion" not in lab.tried


def test_no_shape_with_a_window_is_one_inconclusive_trial_each(monkeypatch):
    lab = Lab(monkeypatch, problems={"schema-heavy": NO_WINDOW})
    trials = lab.run("D3", trials=20)
    assert [trial.outcome for trial in trials] == [INCONCLUSIVE]


def test_a_miss_is_measured_again_before_the_next_turn(monkeypatch):
    # GIVEN answers that came too soon: the load that was measured is gone
    lab = Lab(monkeypatch)
    lab.reached = False
    lab.run("D3", trials=3)
    assert lab.calibrated == ["schema-heavy"] * 3


def test_a_hit_is_not_measured_again(monkeypatch):
    lab = Lab(monkeypatch)
    lab.run("D3", trials=3)
    assert lab.calibrated == ["schema-heavy"]


def test_a_build_that_cannot_be_pinned_says_so_and_keeps_its_unpinned_trials(monkeypatch):
    # GIVEN a server whose sleep obeys nothing
    trials = Lab(monkeypatch, pin=False).run("D1", "D2", "D3", trials=3)
    # THEN D1, which needs no pin, is tried in full; the others are inconclusive at once
    assert [(trial.defect, trial.outcome) for trial in trials] == [
        ("D1", ANSWERED),
        ("D1", ANSWERED),
        ("D1", ANSWERED),
        ("D2", INCONCLUSIVE),
        ("D3", INCONCLUSIVE),
    ]
    assert trials[-1].notes == ["this build's sleep cannot be pinned"]


def test_servers_that_stop_starting_end_the_trials(monkeypatch):
    lab = Lab(monkeypatch, starts=False)
    trials = lab.run("D2", trials=20)
    assert len(trials) == FAILED_STARTS
    assert not any(trial.reached for trial in trials)
    assert any("given up" in line for line in lab.said)


def test_a_server_without_a_sleep_mode_is_named(monkeypatch):
    lab = Lab(monkeypatch)

    def refuse(*_):
        raise UserError(
            "the server ended with status 1; it said: error: invalid argument: --sleep-idle-seconds",
            where="llama-server",
            remedy="check",
        )

    monkeypatch.setattr(method, "calibrate", refuse)
    with pytest.raises(UserError, match="has no sleep mode"):
        lab.run("D2")


def test_another_failure_to_start_stays_what_it_is(monkeypatch):
    lab = Lab(monkeypatch)

    def refuse(*_):
        raise UserError("the port cannot be used", where="127.0.0.1:1", remedy="choose another")

    monkeypatch.setattr(method, "calibrate", refuse)
    with pytest.raises(UserError, match="port cannot be used"):
        lab.run("D2")


@pytest.mark.parametrize(("before", "after", "named"), [(3, 4, True), (3, 3, False), (None, 4, False)])
def test_a_kill_is_laid_to_memory_only_when_the_kernel_counted_one(before, after, named):
    killed = Trial(number=1, route="x", outcome=INCONCLUSIVE, reached=False, signal=9, notes=["killed"])
    notes = explained(killed, before, after).notes
    assert any("out of memory" in note for note in notes) is named


def test_a_crash_is_never_laid_to_memory():
    crashed = Trial(number=1, route="x", outcome=CRASHED, signal=11)
    assert explained(crashed, 3, 4) is crashed


def test_defects_are_taken_as_named_and_strangers_refused():
    assert chosen_defects(None) == DEFECTS
    assert chosen_defects(["d3", "D2", "D3"]) == ("D3", "D2")
    with pytest.raises(UserError, match="no pinned trial"):
        chosen_defects(["D5"])


def test_readers_are_poisoned_unless_asked_otherwise_and_the_hang_never():
    assert all(shape.poisoned for shape in shapes_for("D2", unpoisoned=False))
    assert not any(shape.poisoned for shape in shapes_for("D2", unpoisoned=True))
    assert not any(shape.poisoned for shape in shapes_for("D3", unpoisoned=False))
    assert len(shapes_for("D2", unpoisoned=True)) > len(shapes_for("D2", unpoisoned=False))


def test_the_plain_twin_differs_only_by_what_makes_the_request_slow():
    shape = shapes_for("D3", unpoisoned=False)[0]
    assert shape.plain is not None
    assert {**shape.plain.body, "json_schema": shape.request.body["json_schema"]} == shape.request.body
