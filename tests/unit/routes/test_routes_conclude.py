"""What a survey adds up to, and the exit status that follows."""

from analyzers.contracts.routes import BROKEN, KEPT, RouteTrial
from analyzers.contracts.trials import (
    AFFECTED,
    ANSWERED,
    CRASHED,
    EXIT_DEFECT,
    EXIT_INCONCLUSIVE,
    EXIT_SOUND,
    INCONCLUSIVE,
    SOUND,
    STRANDED,
    WRONG_ANSWER,
    Judgement,
)
from collector.lab.verify.findings import exit_status
from collector.lab.verify.routes.conclude import ANSWERS, PROMISE, conclude

D1 = Judgement(class_="SEGV-UAF-SLEEP", defect="D1", confidence="proven")


def trial(outcome=ANSWERED, promise=KEPT, **more):
    made = {"number": 1, "route": "GET /props", "state": "asleep", "outcome": outcome, "promise": promise}
    return RouteTrial(**{**made, **more})


def found(trials):
    return {finding.defect: finding for finding in conclude(trials)}


def test_all_answered_and_kept_is_sound():
    findings = conclude([trial() for _ in range(10)])

    assert {each.defect: each.conclusion for each in findings} == {ANSWERS: SOUND, PROMISE: SOUND}
    assert exit_status(findings) == EXIT_SOUND


def test_a_defect_that_was_not_seen_is_not_called_absent():
    assert not {"D1", "D2", "D3"} & set(found([trial()]))


def test_a_judged_crash_is_its_defect_and_no_wrong_answer():
    # GIVEN a crash that triage called D1
    findings = found([trial(), trial(CRASHED, "none", signal=11, judgement=D1)])

    # THEN D1 is found, and the other answers stay right
    assert findings["D1"].conclusion == AFFECTED
    assert findings["D1"].shown == 1
    assert "GET /props asleep" in findings["D1"].because
    assert findings[ANSWERS].conclusion == SOUND
    assert exit_status(findings.values()) == EXIT_DEFECT


def test_a_stranded_request_is_d3_whatever_a_log_alone_can_prove():
    findings = found([trial(STRANDED, BROKEN)])

    assert findings["D3"].conclusion == AFFECTED


def test_a_crash_that_fits_no_defect_is_still_found():
    judgement = Judgement(class_="SEGV")
    findings = found([trial(CRASHED, "none", signal=11, judgement=judgement)])

    assert findings[ANSWERS].conclusion == AFFECTED
    assert "crashed" in findings[ANSWERS].because


def test_a_wrong_answer_is_found():
    assert found([trial(WRONG_ANSWER, "none")])[ANSWERS].conclusion == AFFECTED


def test_a_broken_promise_is_a_finding_of_its_own():
    findings = found([trial(promise=BROKEN, promised="silent"), *[trial() for _ in range(9)]])

    assert findings[PROMISE].conclusion == AFFECTED
    assert findings[PROMISE].shown == 1
    assert "promised silent: GET /props asleep" in findings[PROMISE].because
    assert exit_status(findings.values()) == EXIT_DEFECT


def test_trials_that_missed_their_state_prove_nothing():
    # GIVEN a run in which a fifth of the requests missed
    trials = [trial() for _ in range(8)] + [trial(INCONCLUSIVE, "none", reached=False) for _ in range(2)]

    # THEN nothing is called sound
    findings = conclude(trials)
    assert {each.conclusion for each in findings} == {INCONCLUSIVE}
    assert exit_status(findings) == EXIT_INCONCLUSIVE
    assert "8 of 10" in findings[0].because


def test_a_bad_outcome_outside_its_state_is_not_counted():
    findings = found([trial(CRASHED, "none", reached=False), *[trial() for _ in range(20)]])

    assert set(findings) == {ANSWERS, PROMISE}
    assert findings[ANSWERS].conclusion == SOUND


def test_no_trial_is_inconclusive():
    assert exit_status(conclude([])) == EXIT_INCONCLUSIVE


def test_absent_routes_count_for_nothing():
    trials = [trial(absent=True) for _ in range(5)]

    assert {each.conclusion for each in conclude(trials)} == {INCONCLUSIVE}
    assert {each.trials for each in conclude(trials)} == {0}


def test_requests_that_were_never_answered_leave_nothing_sound():
    """A server that hangs awake answers nothing wrongly either."""
    # GIVEN requests that met their state and got no answer
    hung = [trial(INCONCLUSIVE, "none") for _ in range(10)]

    findings = conclude(hung)

    assert {each.conclusion for each in findings} == {INCONCLUSIVE}
    assert exit_status(findings) == EXIT_INCONCLUSIVE


def test_one_request_that_met_its_state_and_was_never_answered_leaves_the_answers_open():
    hung = trial(INCONCLUSIVE, "none", route="POST /tokenize", state="waking")
    missed = trial(INCONCLUSIVE, "none", reached=False)

    assert found([trial()] * 99 + [missed])[ANSWERS].conclusion == SOUND
    finding = found([trial()] * 99 + [hung])[ANSWERS]
    assert finding.conclusion == INCONCLUSIVE
    assert finding.because == "never answered: POST /tokenize waking"


def test_a_weak_verdict_names_no_defect():
    # GIVEN a server error that a log alone lays at D2's door
    weak = Judgement(class_="ERROR-UAF-SLEEP", defect="D2", confidence="weak")
    findings = found([trial(), trial("server-error", "none", judgement=weak)])

    # THEN the answer was not the awake one, and no defect is found
    assert "D2" not in findings
    assert findings[ANSWERS].conclusion == AFFECTED


def test_nothing_is_called_right_over_a_crash_and_one_is_said_as_one():
    crash = trial("crashed", "none", judgement=Judgement(class_="SEGV", defect="D1", confidence="strong"))

    said = found([trial(), crash])

    assert said["D1"].because.startswith("1 request showed it")
    assert said[ANSWERS].because == "apart from D1, nothing went wrong"
    assert found([trial()])[ANSWERS].because == "no answer was wrong"
