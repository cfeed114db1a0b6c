"""What may be concluded from a pinned send: nothing counts that did not reach its window."""

import signal

import pytest

from analyzers.contracts.trials import (
    ANSWERED,
    CRASHED,
    INCONCLUSIVE,
    REFUSED,
    SERVER_ERROR,
    STRANDED,
    WRONG_ANSWER,
)
from collector.lab.reference import Answer, Ending
from collector.lab.verify.pinned.seen import Seen, read
from collector.lab.verify.pinned.windows import Window

WINDOW = Window(0.1, 0.2, 0.3)
SENT = 100.0


def answer(status=200, body=b'{"tokens": [1, 2]}', ended=100.5, error=None):
    return Answer("/tokenize", status, body, error, SENT, ended)


def seen(**facts):
    return Seen(sent=SENT, wanted=SENT + WINDOW.aim, **facts)


def ended(number=None, code=None):
    return Ending(number, code, 101.0, 0.0)


def test_a_sleep_in_the_window_and_the_right_answer():
    reading = read(seen(arrival=100.2, answer=answer()), WINDOW, answer())
    assert (reading.outcome, reading.reached) == (ANSWERED, True)


@pytest.mark.parametrize("arrival", [100.05, 100.35])
def test_a_sleep_outside_the_window_says_nothing(arrival):
    reading = read(seen(arrival=arrival, answer=answer()), WINDOW, answer())
    assert (reading.outcome, reading.reached) == (ANSWERED, False)
    assert "outside its window of 100 to 300 ms" in reading.notes[0]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS])
def test_a_crash_counts_although_its_sleep_line_may_be_lost(number):
    reading = read(
        seen(ending=ended(number), answer=answer(None, b"", error="RemoteDisconnected")), WINDOW, None
    )
    assert (reading.outcome, reading.reached) == (CRASHED, True)


def test_an_answer_unlike_two_that_differ_already_is_neither_right_nor_wrong():
    """A user's own model may draw at random."""
    first, second, third = (answer(body=body) for body in (b'{"tokens": [1]}', b'{"tokens": [2]}', b"{}"))
    slept = {"arrival": 100.2}
    reading = read(seen(answer=third, **slept), WINDOW, first, second)
    assert (reading.outcome, reading.reached) == (INCONCLUSIVE, False)
    assert "differ already" in reading.notes[0]
    assert read(seen(answer=second, **slept), WINDOW, first, second).outcome == ANSWERED
    assert read(seen(answer=third, **slept), WINDOW, first, None).outcome == WRONG_ANSWER
    # an error that no awake answer is stays one, and a crash stays a crash
    assert read(seen(answer=answer(500), **slept), WINDOW, first, second).outcome == SERVER_ERROR
    assert read(seen(ending=ended(signal.SIGSEGV)), WINDOW, first, second).outcome == CRASHED


def test_a_kill_from_outside_is_never_counted():
    # GIVEN what the out-of-memory killer leaves behind, in the middle of the window
    reading = read(seen(ending=ended(signal.SIGKILL), arrival=100.2), WINDOW, answer())
    # THEN
    assert (reading.outcome, reading.reached) == (INCONCLUSIVE, False)
    assert reading.notes == ("killed by SIGKILL from outside, not counted",)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, 64])
def test_other_signals_from_outside_are_named(number):
    reading = read(seen(ending=ended(number)), WINDOW, answer())
    assert not reading.reached
    assert "from outside" in reading.notes[0]


def test_a_server_that_ends_by_itself_is_no_crash():
    reading = read(seen(ending=ended(code=1), arrival=100.2), WINDOW, answer())
    assert (reading.outcome, reading.reached) == (INCONCLUSIVE, False)
    assert "status 1" in reading.notes[0]


def test_a_server_that_slept_before_the_request_pinned_nothing():
    reading = read(seen(early=True, arrival=100.2, answer=answer()), WINDOW, answer())
    assert (reading.outcome, reading.reached) == (INCONCLUSIVE, False)
    assert seen(early=True, arrival=100.2).placement_error is None


def test_stranded_needs_both_witnesses():
    # GIVEN a client without an answer
    both = read(seen(arrival=100.2, asleep=True, found=True), WINDOW, answer())
    only_asleep = read(seen(arrival=100.2, asleep=True), WINDOW, answer())
    awake = read(seen(arrival=100.2), WINDOW, answer())
    # THEN only what /props and the collector's search agree on is called stranded
    assert (both.outcome, both.reached) == (STRANDED, True)
    assert (only_asleep.outcome, only_asleep.reached) == (INCONCLUSIVE, False)
    assert (awake.outcome, awake.reached) == (INCONCLUSIVE, False)
    assert "not asleep" in awake.notes[0]


def test_a_broken_connection_to_a_living_server_is_no_hang():
    reading = read(
        seen(answer=answer(None, b"", error="ConnectionResetError"), asleep=True), WINDOW, answer()
    )
    assert (reading.outcome, reading.reached) == (INCONCLUSIVE, False)
    assert "ConnectionResetError" in reading.notes[0]


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (answer(500, b'{"error": {"message": "_Map_base::at"}}'), SERVER_ERROR),
        (answer(400, b'{"error": {"message": "_Map_base::at"}}'), SERVER_ERROR),
        (answer(200, b'{"tokens": [1, 9]}'), WRONG_ANSWER),
    ],
)
def test_a_bad_answer_shows_itself_wherever_in_the_request_sleep_came(given, outcome):
    # GIVEN a sleep later than the planned window, but before the answer
    reading = read(seen(arrival=100.4, answer=given), WINDOW, answer())
    assert (reading.outcome, reading.reached) == (outcome, True)


def test_a_bad_answer_without_any_sleep_is_not_sleeps_doing():
    reading = read(seen(answer=answer(500, b"{}")), WINDOW, answer())
    assert (reading.outcome, reading.reached) == (SERVER_ERROR, False)
    assert "no sleep came into the request" in reading.notes[0]


def test_an_error_the_awake_server_gives_as_well_is_right():
    same = answer(400, b'{"error": {"message": "too long"}}')
    assert read(seen(arrival=100.2, answer=same), WINDOW, same).outcome == ANSWERED


def test_without_an_awake_answer_nothing_is_right():
    reading = read(seen(arrival=100.2, answer=answer()), WINDOW, None)
    assert (reading.outcome, reading.reached) == (INCONCLUSIVE, False)


def test_a_refusal_in_the_window_is_a_refusal():
    reading = read(seen(arrival=100.2, answer=answer(503, b"{}")), WINDOW, answer())
    assert (reading.outcome, reading.reached) == (REFUSED, True)


# A sound server does not sleep into a request: no sleep line, or one after the answer.


# 100.45: the answer's last bytes were still on their way when the server slept, its request over.
@pytest.mark.parametrize("arrival", [None, 100.45, 100.6])
def test_a_server_that_declines_to_sleep_reached_the_window(arrival):
    facts = {"arrival": arrival, "handled": 100.2, "answer": answer(), "proven": True}
    reading = read(seen(**facts), WINDOW, answer())
    assert (reading.outcome, reading.reached) == (ANSWERED, True)
    assert seen(**facts).placement_error is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"handled": None, "proven": True}, "before the request was queued or answered"),
        ({"handled": 100.2, "posted": 100.15, "proven": True}, "before the request was queued or answered"),
        ({"handled": 100.6, "proven": True}, "before the request was queued or answered"),
        ({"handled": 100.05, "proven": True}, "outside its window"),
        ({"handled": 100.2, "proven": False}, "did not sleep when told to"),
    ],
)
def test_what_never_could_have_slept_is_not_called_sound(facts, said):
    reading = read(seen(answer=answer(), **facts), WINDOW, answer())
    assert not reading.reached
    assert said in reading.notes[0]


def test_the_placement_error_is_arrival_against_the_wanted_moment():
    assert seen(arrival=SENT + WINDOW.aim + 0.002).placement_error == pytest.approx(0.002)
    assert seen(arrival=SENT + WINDOW.aim - 0.002).placement_error == pytest.approx(-0.002)
    assert seen(arrival=SENT - 1).placement_error is None
    assert seen().placement_error is None


def test_a_request_to_a_sleeping_server_is_met_by_its_sleep():
    # GIVEN D1's trial: the server slept before, and that was wanted
    reading = read(
        seen(handled=SENT, proven=True, slept_before=True, answer=answer(500, b"{}")),
        Window(0.0, 0.0, float("inf")),
        answer(),
    )
    assert (reading.outcome, reading.reached) == (SERVER_ERROR, True)


@pytest.mark.parametrize(
    ("code", "said"),
    [(139, "SIGSEGV"), (134, "SIGABRT"), (137, "SIGKILL"), (1, None), (128, None), (255, None)],
)
def test_a_death_behind_a_shell_is_said_and_not_counted(code, said):
    """A wrapper script that does not exec its server."""
    reading = read(seen(ending=ended(code=code)), WINDOW, None)
    assert (reading.outcome, reading.reached) == (INCONCLUSIVE, False)
    assert f"status {code}" in reading.notes[0]
    assert ("shell" in reading.notes[0]) == (said is not None)
    assert (said or "status") in reading.notes[0]
