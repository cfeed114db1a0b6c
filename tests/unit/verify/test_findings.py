"""What trials add up to: never sound without enough of them, never affected without one that showed it."""

from __future__ import annotations

import math
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trial_builder import finding, judged, made

from analyzers.contracts.trials import (
    AFFECTED,
    ANSWERED,
    BAD,
    CRASHED,
    EXIT_DEFECT,
    EXIT_INCONCLUSIVE,
    EXIT_SOUND,
    INCONCLUSIVE,
    LEAKED,
    OUTCOMES,
    REFUSED,
    SERVER_ERROR,
    SOUND,
    STRANDED,
    WRONG_ANSWER,
    Trial,
)
from collector.lab.verify.findings import (
    conclude,
    conclude_all,
    counts,
    exit_status,
    shown_by_the_way,
    shows,
    unfinished,
    upper_bound,
)

DEFECTS = ("D1", "D2", "D3", "D5")


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    verdict = draw(st.sampled_from([None, *DEFECTS, "none"]))
    judgement = None
    if verdict is not None:
        sure = draw(st.sampled_from(["proven", "strong", "weak", "undetermined"]))
        judgement = judged(None if verdict == "none" else verdict, sure)
    return made(
        draw(st.sampled_from(sorted(OUTCOMES))),
        draw(st.sampled_from([*DEFECTS, None])),
        reached=draw(st.booleans()),
        status=draw(st.sampled_from([None, 200, 404, 500, 503])),
        signal=draw(st.sampled_from([None, signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM])),
        judgement=judgement,
        oracle=draw(st.sampled_from([[], ["heap-use-after-free"]])),
    )


RUNS = st.lists(trials(), max_size=12)


@given(RUNS, st.sampled_from(DEFECTS), st.integers(0, 6))
def test_sound_needs_enough_reached_trials_that_are_all_clean(
    run: list[Trial], defect: str, enough: int
) -> None:
    result = conclude(defect, run, enough)
    if result.conclusion != SOUND:
        assert result.upper_bound is None
        return
    own = [trial for trial in run if trial.defect == defect]
    clean = [trial for trial in own if trial.reached and trial.outcome in (ANSWERED, REFUSED)]
    assert result.reached >= max(1, enough)
    assert len(clean) >= result.reached
    assert result.upper_bound == upper_bound(result.reached)
    assert not any(counts(trial) and trial.outcome in BAD for trial in own)


@given(RUNS, st.sampled_from(DEFECTS), st.integers(0, 6))
def test_affected_needs_a_trial_that_reached_its_window_and_ended_badly(
    run: list[Trial], defect: str, enough: int
) -> None:
    result = conclude(defect, run, enough)
    showing = [
        trial
        for trial in run
        if trial.reached
        and trial.outcome in BAD
        and not (trial.outcome == CRASHED and trial.signal in (signal.SIGKILL, signal.SIGTERM))
        and (trial.defect == defect or trial.judgement is not None or trial.outcome == STRANDED)
    ]
    assert (result.conclusion == AFFECTED) == (result.shown > 0)
    assert result.shown <= len(showing)
    assert result.shown <= result.reached <= result.trials


@given(RUNS, st.integers(1, 6))
def test_a_trial_that_reached_nothing_changes_no_conclusion(run: list[Trial], enough: int) -> None:
    lost = [
        made(CRASHED, "D2", reached=False, signal=11),
        made(INCONCLUSIVE, "D2"),
        made(STRANDED, reached=False),
    ]
    before = conclude_all(run, ("D2", "D3"), enough)
    after = conclude_all([*run, *lost], ("D2", "D3"), enough)
    assert [each.conclusion for each in after] == [each.conclusion for each in before]
    assert [each.reached for each in after] == [each.reached for each in before]


@given(RUNS, st.integers(1, 6))
def test_the_exit_status_follows_from_the_findings(run: list[Trial], enough: int) -> None:
    findings = conclude_all(run, ("D1", "D2", "D3"), enough)
    status = exit_status(findings)
    asked = findings[:3]
    assert (status == EXIT_DEFECT) == any(each.conclusion == AFFECTED for each in asked)
    assert (status == EXIT_SOUND) == all(each.conclusion == SOUND for each in findings)
    assert status in (EXIT_SOUND, EXIT_DEFECT, EXIT_INCONCLUSIVE)


@given(RUNS, st.integers(1, 6))
def test_a_run_cut_short_is_never_sound_and_loses_nothing_shown(run: list[Trial], enough: int) -> None:
    findings = conclude_all(run, ("D1", "D2", "D3"), enough)
    cut = unfinished(findings, "the run was interrupted")
    assert all(each.conclusion != SOUND and each.upper_bound is None for each in cut)
    assert [each.conclusion == AFFECTED for each in cut] == [each.conclusion == AFFECTED for each in findings]
    assert exit_status(cut) != EXIT_SOUND


@pytest.mark.parametrize(
    ("defect", "trial", "expected"),
    [
        ("D2", made(CRASHED, "D2", signal=11), False),  # nobody has judged it
        ("D2", made(CRASHED, "D2", signal=11, judgement=judged("D2")), True),
        ("D2", made(CRASHED, "D2", signal=11, judgement=judged("D1")), False),
        ("D2", made(CRASHED, "D2", signal=11, judgement=judged(None, class_="SEGV")), False),
        ("D2", made(CRASHED, "D2", judgement=judged(None, class_="SEGV"), oracle=["freed"]), False),
        ("D2", made(CRASHED, "D2", judgement=judged("D2"), oracle=["freed"]), True),
        ("D3", made(CRASHED, "D3", signal=11), False),
        ("D2", made(CRASHED, "D2", signal=signal.SIGKILL), False),
        ("D2", made(CRASHED, "D2", signal=signal.SIGTERM), False),
        ("D2", made(CRASHED, "D2", signal=signal.SIGABRT), False),
        ("D2", made(WRONG_ANSWER, "D2"), True),
        ("D1", made(SERVER_ERROR, "D1"), True),
        ("D3", made(WRONG_ANSWER, "D3"), False),
        ("D3", made(STRANDED, "D3"), True),
        ("D2", made(STRANDED, "D2"), False),
        ("D5", made(LEAKED, "D5"), True),
        ("D2", made(LEAKED, "D2"), False),
        ("D5", made(WRONG_ANSWER, "D5"), False),
        ("D2", made(ANSWERED, "D2"), False),
        ("D2", made(REFUSED, "D2", status=503), False),
        ("D2", made(INCONCLUSIVE, "D2"), False),
    ],
)
def test_what_shows_a_defect(defect: str, trial: Trial, expected: bool) -> None:
    assert shows(defect, trial) is expected


def test_a_trial_for_one_defect_that_ends_as_another_is_a_finding_on_the_other() -> None:
    # GIVEN a trial made for D2 whose crash is triaged to D1
    run = [made(CRASHED, "D2", signal=11, judgement=judged("D1", "proven")), made(ANSWERED, "D2")]
    # WHEN concluded
    d2, d1 = conclude_all(run, ("D2",), 1)
    # THEN D1 is found by the way, and D2 stays open: that trial says nothing about it
    assert (d1.defect, d1.conclusion, d1.shown, d1.trials, d1.asked) == ("D1", AFFECTED, 1, 1, False)
    assert "made for D2" in d1.because
    assert d2.conclusion == INCONCLUSIVE
    assert "crashed (D1)" in d2.because


def test_a_defect_met_by_the_way_does_not_answer_for_the_one_that_is_bisected() -> None:
    run = [made(CRASHED, "D2", signal=11, judgement=judged("D1"))]
    assert exit_status(conclude_all(run, ("D2",), 1)) == EXIT_INCONCLUSIVE
    assert exit_status(conclude_all(run, ("D1", "D2"), 1)) == EXIT_DEFECT


@pytest.mark.parametrize(
    ("trial", "met"),
    [
        (made(STRANDED, "D2"), "D3"),
        (made(STRANDED, "D2", judgement=judged("D3", "weak")), "D3"),
        (made(STRANDED, "D3"), None),
        (made(CRASHED, "D3", signal=11, judgement=judged("D2")), "D2"),
        (made(CRASHED, "D3", signal=11, judgement=judged("D2", "weak")), None),
        (made(CRASHED, "D3", signal=11), None),
        (made(WRONG_ANSWER, "D3"), None),
        (made(CRASHED, "D3", signal=9, judgement=judged("D2")), None),
        (made(STRANDED, "D2", reached=False), None),
        (made(ANSWERED, "D3", judgement=judged("D2")), None),
    ],
)
def test_only_what_can_be_nothing_else_is_found_by_the_way(trial: Trial, met: str | None) -> None:
    assert shown_by_the_way(trial) == met


def test_a_route_that_does_not_exist_makes_nothing_sound() -> None:
    gone = [made(REFUSED, "D1", status=404)] * 60
    result = conclude("D1", gone, 5)
    assert result.conclusion == INCONCLUSIVE
    assert "does not exist" in result.because


NO_NAMES = judged(None, class_="SEGV").model_copy(update={"named": False})


def test_a_crash_without_names_is_shown_and_attributed_to_nothing() -> None:
    lost = made(CRASHED, "D2", signal=11, judgement=NO_NAMES)
    other = made(CRASHED, "D2", signal=6, judgement=judged(None, class_="ABRT-ASSERT"))
    # GIVEN crashes of a stripped server
    result = conclude("D2", [lost, lost], 1)
    # THEN they are counted as crashes, and not as another defect
    assert (result.conclusion, result.shown, result.reached) == (INCONCLUSIVE, 0, 2)
    assert "2 crashed and cannot be attributed" in result.because
    assert "no names" in result.because
    assert "otherwise" not in result.because
    # and those that have names are kept apart
    both = conclude("D2", [lost, other], 1).because
    assert "1 ended otherwise: crashed (ABRT-ASSERT)" in both
    assert "1 crashed and cannot be attributed" in both
    # a defect that was shown all the same stands
    shown = made(CRASHED, "D2", signal=11, judgement=judged("D2"))
    assert conclude("D2", [lost, shown], 1).conclusion == AFFECTED


def test_another_report_of_the_sanitizer_is_named_by_its_own_words() -> None:
    said = judged(None, "undetermined", "UNDETERMINED").model_copy(
        update={"summary": "AddressSanitizer: heap-buffer-overflow (8 bytes); read by f"}
    )
    result = conclude("D2", [made(CRASHED, "D2", signal=6, judgement=said, oracle=["x"])], 1)
    assert "crashed (AddressSanitizer: heap-buffer-overflow (8 bytes))" in result.because


@pytest.mark.parametrize(
    ("run", "said", "advice"),
    [
        ([made(ANSWERED, "D2")], "0 of 1 showed it, but 5 clean trials are needed", "--trials 5 or more"),
        ([made(ANSWERED, "D2", reached=False)], "only 0 of 1 trials", "--trials 5 or more"),
        ([made(ANSWERED, "D2")] * 3 + [made(INCONCLUSIVE, "D2")] * 3, "only 3 of 6 trials", "--trials 12"),
        ([made(ANSWERED, "D2")] * 3 + [made(INCONCLUSIVE, "D2")] * 3, "only 3 of 6", "less busy"),
    ],
)
def test_too_few_trials_say_what_would_be_enough(run: list[Trial], said: str, advice: str) -> None:
    result = conclude("D2", run, 5)
    assert result.conclusion == INCONCLUSIVE
    assert said in result.because
    assert advice in result.because


def test_trials_that_all_say_nothing_are_not_helped_by_more_of_them() -> None:
    """What they complain of is said instead."""
    killed = made(INCONCLUSIVE, "D2", reached=False, notes=["ended from outside by SIGKILL\x1b[31m", "x"])
    result = conclude("D2", [killed] * 6, 5)
    assert "ended from outside by SIGKILL?[31m" in result.because
    assert "--trials" not in result.because
    assert "no trial could be made" in conclude("D1", [], 5).because


def test_a_server_that_refuses_while_it_sleeps_is_sound() -> None:
    assert conclude("D2", [made(REFUSED, "D2", status=503)] * 5, 5).conclusion == SOUND


def test_a_server_killed_from_outside_is_neither_found_nor_absent() -> None:
    run = [made(CRASHED, "D2", signal=signal.SIGKILL)] * 3 + [made(ANSWERED, "D2")] * 2
    result = conclude("D2", run, 5)
    assert (result.conclusion, result.reached, result.trials) == (INCONCLUSIVE, 2, 5)


def test_no_trial_at_all_is_inconclusive_even_when_none_is_needed() -> None:
    assert conclude("D2", [], 0).conclusion == INCONCLUSIVE
    assert exit_status([]) == EXIT_INCONCLUSIVE


def test_defects_asked_twice_are_concluded_once() -> None:
    assert [each.defect for each in conclude_all([], ("D2", "D2"), 1)] == ["D2"]


@given(st.integers(1, 10_000))
def test_the_bound_is_the_rate_at_which_so_many_clean_trials_have_a_chance_of_one_in_twenty(
    clean: int,
) -> None:
    assert math.isclose((1 - upper_bound(clean)) ** clean, 0.05, rel_tol=1e-9)


def test_the_bound_of_sixty_clean_trials_is_about_three_over_sixty() -> None:
    assert upper_bound(60) == pytest.approx(0.0487, abs=1e-4)
    assert upper_bound(0) == 1.0


@pytest.mark.parametrize(
    ("conclusions", "status"),
    [
        ([SOUND], EXIT_SOUND),
        ([SOUND, SOUND], EXIT_SOUND),
        ([SOUND, INCONCLUSIVE], EXIT_INCONCLUSIVE),
        ([AFFECTED, INCONCLUSIVE, SOUND], EXIT_DEFECT),
        ([], EXIT_INCONCLUSIVE),
        (["a conclusion of a newer writer"], EXIT_INCONCLUSIVE),
    ],
)
def test_the_table_of_exit_statuses(conclusions: list[str], status: int) -> None:
    assert exit_status([finding(conclusion=each) for each in conclusions]) == status
