"""Isolation, placement and time in the finding: a trial that ended in the other defect is not its own."""

import pytest

from analyzers.contracts.trials import (
    AFFECTED,
    ANSWERED,
    CRASHED,
    INCONCLUSIVE,
    SERVER_ERROR,
    SOUND,
    STRANDED,
    Judgement,
    Trial,
)
from collector.lab.verify.pinned.conclude import conclude, others, remarks, seconds_to_show, summary


def trial(defect, outcome, *, judged=None, reached=True, error=None, seconds=2.0, number=1):
    verdict = Judgement(**{"class": "X"}, defect=judged, confidence="proven") if judged else None
    return Trial(
        number=number,
        defect=defect,
        route="POST /completion",
        outcome=outcome,
        reached=reached,
        judgement=verdict,
        placement_error=error,
        trial_seconds=seconds,
        signal=11 if outcome == CRASHED else None,
    )


CRASH = trial("D2", CRASHED, judged="D2", error=0.002)
STRAND = trial("D3", STRANDED, judged="D3", error=-0.001)


def only(trials, defect, planned):
    return next(each for each in conclude(trials, (defect,), planned) if each.defect == defect)


def test_shown_with_its_placement_and_its_time():
    # GIVEN a first trial that missed, then one that showed it
    missed = trial("D2", INCONCLUSIVE, reached=False, seconds=3.0)
    finding = only([missed, CRASH], "D2", 2)
    # THEN
    assert finding.conclusion == AFFECTED
    assert finding.placement_error == pytest.approx(0.002)
    assert finding.seconds_to_show == pytest.approx(5.0)
    assert "placement error median 2.0 ms" in finding.because
    assert "first shown after 5.0 s" in finding.because


def test_a_crash_without_names_is_not_called_another_defect():
    # GIVEN crashes of a stripped server
    said = Judgement(**{"class": "SEGV"}, named=False)
    lost = trial("D2", CRASHED).model_copy(update={"judgement": said})
    finding = only([lost] * 20, "D2", 20)
    # THEN a crash is shown, and what it is stays open
    assert (finding.conclusion, finding.shown, finding.reached, finding.other) == (INCONCLUSIVE, 0, 20, 0)
    assert "20 crashed and cannot be attributed" in finding.because
    assert "another defect" not in finding.because
    assert "crashed without a name: 20" in summary("D2", [lost] * 20)


def test_a_crash_in_a_trial_for_the_hang_is_counted_as_other():
    crashed = trial("D3", CRASHED, judged="D2")
    finding = only([STRAND] * 19 + [crashed], "D3", 20)
    assert (finding.shown, finding.reached, finding.other) == (19, 20, 1)
    assert "1 ended in another defect" in finding.because


def test_a_hang_in_a_trial_for_the_crash_is_counted_as_other_and_shows_the_hang():
    hung = trial("D2", STRANDED, judged="D3")
    findings = conclude([CRASH] * 3 + [hung], ("D2",), 4)
    assert [(each.defect, each.shown, each.asked) for each in findings] == [("D2", 3, True), ("D3", 1, False)]
    assert findings[0].other == 1


def test_the_other_defect_alone_leaves_its_own_open():
    finding = only([trial("D3", CRASHED, judged="D2")] * 20, "D3", 20)
    assert finding.conclusion == INCONCLUSIVE
    assert finding.other == 20


def test_an_error_answer_in_a_trial_for_the_hang_is_no_hang():
    assert len(others("D3", [trial("D3", SERVER_ERROR)])) == 1
    assert others("D2", [trial("D2", SERVER_ERROR)]) == []


def test_enough_answers_are_sound_and_bounded():
    finding = only([trial("D2", ANSWERED)] * 20, "D2", 20)
    assert finding.conclusion == SOUND
    assert finding.upper_bound == pytest.approx(0.139, abs=0.001)
    assert finding.placement_error is None
    assert finding.seconds_to_show is None


def test_an_interrupted_run_is_not_sound_on_what_little_it_has():
    # GIVEN 20 planned and 10 made, all answered
    assert only([trial("D2", ANSWERED)] * 10, "D2", 20).conclusion == INCONCLUSIVE


def test_misses_are_tolerated_up_to_a_quarter():
    missed = trial("D2", ANSWERED, reached=False)
    assert only([trial("D2", ANSWERED)] * 15 + [missed] * 5, "D2", 20).conclusion == SOUND
    assert only([trial("D2", ANSWERED)] * 14 + [missed] * 6, "D2", 20).conclusion == INCONCLUSIVE


def test_nothing_but_misses_is_no_finding():
    missed = trial("D2", INCONCLUSIVE, reached=False)
    finding = only([missed] * 20, "D2", 20)
    assert (finding.conclusion, finding.shown, finding.reached) == (INCONCLUSIVE, 0, 0)


def test_the_line_for_the_terminal():
    assert summary("D2", [CRASH]).startswith("1 of 1 showed it, placement error median 2.0 ms")
    assert summary("D1", [trial("D1", ANSWERED)]) == "0 of 1 showed it"
    assert remarks("D2", []) == ""


def test_time_until_shown_needs_a_showing():
    assert seconds_to_show("D2", [trial("D2", ANSWERED)]) is None


def test_a_reader_is_never_sound_where_freed_memory_was_not_poisoned():
    """An affected b11063 answered every unpoisoned token count rightly."""
    # GIVEN clean trials of all three defects
    clean = [trial(defect, ANSWERED) for defect in ("D1", "D2", "D3") for _ in range(20)]
    # WHEN nothing was poisoned
    found = {each.defect: each for each in conclude(clean, ("D1", "D2", "D3"), 20, unpoisoned=True)}
    # THEN only the hang, which reads nothing, is called absent
    assert [found[name].conclusion for name in ("D1", "D2", "D3")] == [INCONCLUSIVE, INCONCLUSIVE, SOUND]
    assert "freed memory was left as it is" in found["D1"].because
    assert found["D1"].upper_bound is None
    assert all(each.conclusion == SOUND for each in conclude(clean, ("D1", "D2", "D3"), 20))


def test_what_was_shown_stays_shown_without_poison():
    (finding,) = conclude([CRASH, trial("D2", ANSWERED)], ("D2",), 2, unpoisoned=True)
    assert finding.conclusion == AFFECTED


@pytest.mark.parametrize(("count", "expected"), [(1, INCONCLUSIVE), (4, INCONCLUSIVE), (5, SOUND)])
def test_fewer_than_five_clean_trials_call_nothing_sound(count, expected):
    assert only([trial("D2", ANSWERED)] * count, "D2", count).conclusion == expected
