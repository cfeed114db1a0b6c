"""Which way of pinning is taken, by build and by what the server was seen to do."""

import pytest

from collector.lab.faults.pinning import Dry, Pinned
from collector.lab.reference.output import Line
from collector.lab.verify.pinned import pins
from collector.lab.verify.pinned.pins import (
    CANNOT,
    LARGEST_SPREAD,
    METRICS_PIN_BUILD,
    POKED_DEADLINE,
    MetricsPin,
    NaturalPin,
    choose_pin,
    may_be_poked,
    pin_by_metrics,
    pin_by_nature,
)


def dry(delay):
    return Dry(10.0, None if delay is None else Line("entering sleeping state", 0.0, 10.0 + delay))


class Rehearsals:
    """Stands in for a server: what each kind of rehearsal gives, and how many there were."""

    def __init__(self, monkeypatch, poked=(), natural=()):
        self.poked, self.natural = list(poked), list(natural)
        self.asked = []
        monkeypatch.setattr(pins, "dry_poke", lambda *_: self._next("poke", self.poked))
        monkeypatch.setattr(pins, "dry_nature", lambda *_: self._next("nature", self.natural))

    def _next(self, kind, left):
        self.asked.append(kind)
        return dry(left.pop(0) if left else None)


@pytest.mark.parametrize(
    ("build", "allowed"),
    [(METRICS_PIN_BUILD, True), (11549, True), (METRICS_PIN_BUILD - 1, False), (9294, False), (None, True)],
)
def test_only_builds_known_to_count_metrics_as_work_are_never_poked(build, allowed):
    assert may_be_poked(build) is allowed


def test_a_server_that_obeys_pokes_is_pinned_by_them(monkeypatch):
    # GIVEN one rehearsal among three that another process disturbed
    rehearsals = Rehearsals(monkeypatch, poked=(0.0015, None, 0.0017))
    # WHEN
    pin = choose_pin(None, 11549, lambda _: None)
    # THEN
    assert isinstance(pin, MetricsPin)
    assert pin.correction.seconds == pytest.approx(0.0016)
    assert "nature" not in rehearsals.asked


def test_an_old_build_is_never_poked_and_its_own_moment_is_learnt(monkeypatch):
    rehearsals = Rehearsals(monkeypatch, natural=(0.001, -0.001, 0.0005))
    said = []
    pin = choose_pin(None, 10068, said.append)
    assert isinstance(pin, NaturalPin)
    assert "poke" not in rehearsals.asked
    assert "keeps a server awake" in said[0]


def test_a_build_without_a_number_falls_back_when_pokes_do_nothing(monkeypatch):
    # GIVEN a binary that calls itself b0-unknown and counts /metrics as work
    Rehearsals(monkeypatch, poked=(None, None, None), natural=(0.0, 0.0, 0.0))
    said = []
    # WHEN / THEN
    assert isinstance(choose_pin(None, None, said.append), NaturalPin)
    assert "does not make this server sleep" in said[0]


def test_what_neither_obeys_nor_repeats_itself_cannot_be_pinned(monkeypatch):
    Rehearsals(monkeypatch, natural=(0.0, 0.2, 0.4))
    said = []
    assert choose_pin(None, 9294, said.append) is None
    assert said[-1] == CANNOT


@pytest.mark.parametrize("delays", [(), (None, None), (0.001,), (-0.2, -0.2), (POKED_DEADLINE * 2,) * 3])
def test_sleeps_that_did_not_follow_the_poke_teach_nothing(delays):
    assert pin_by_metrics([dry(delay) for delay in delays]) is None


def test_one_late_look_does_not_move_the_learnt_moment():
    pin = pin_by_nature([dry(0.001), dry(0.3), dry(0.002)])
    assert pin is not None
    assert pin.correction.seconds == pytest.approx(0.0015)


def placed(poked, wanted):
    return Pinned(None, poked, False, 9.0, wanted)


def test_a_poke_learns_how_long_a_busy_server_takes():
    pin = MetricsPin([0.001])
    pin.learn(placed(poked=10.0, wanted=10.001), 10.006)
    assert pin.correction.seconds == pytest.approx(0.006)


@pytest.mark.parametrize("arrival", [9.9, 10.0 + POKED_DEADLINE * 3])
def test_a_sleep_that_the_poke_cannot_have_caused_is_not_learnt(arrival):
    pin = MetricsPin([0.001])
    pin.learn(placed(poked=10.0, wanted=10.001), arrival)
    assert pin.correction.seconds == 0.001


def test_the_natural_moment_follows_what_was_seen_but_not_a_missed_look():
    pin = NaturalPin([0.001])
    pin.learn(placed(poked=10.0, wanted=10.0), 10.003)
    assert pin.correction.seconds == pytest.approx(0.004)
    pin.learn(placed(poked=10.0, wanted=10.0), 10.0 + LARGEST_SPREAD * 2)
    assert pin.correction.seconds == pytest.approx(0.004)


def test_a_poke_without_an_answer_was_not_handled():
    assert MetricsPin([]).handled(placed(10.0, 10.0)) is None


def test_a_learnt_moment_is_no_look_that_was_seen():
    # GIVEN a build whose sleep is only predicted THEN a server that stayed awake there proves nothing
    assert NaturalPin([0.0]).handled(placed(10.0, 10.0)) is None


def test_obedience_is_seen_not_assumed(monkeypatch):
    Rehearsals(monkeypatch, poked=(0.002, None), natural=(0.001, 0.4))
    assert MetricsPin([0.001]).obeys(None)
    assert not MetricsPin([0.001]).obeys(None)
    assert NaturalPin([0.001]).obeys(None)
    assert not NaturalPin([0.001]).obeys(None)
