"""verify --update-catalogue: what goes into the overlay, what never does, and that nothing there is lost."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trial_builder import a_run, finding, judged, made

from analyzers.catalogue.loader import known_defects
from analyzers.catalogue.overlay import overlay_path, read_overlay
from analyzers.contracts.trials import Subject, TrialRun
from analyzers.errors import UserError
from collector.lab.verify.overlay import update_overlay, witnesses_of

B11549 = "8aedfa31af1c52fe94168556eb93295be603e89e"
WHEEL = Subject(kind="hosted", name="b11549 (xllamacpp 2026.10.11549)", build=11549, build_id=B11549)
OURS = Subject(kind="native", name="b11368", build=11368, build_id="cd" * 20, stock=True)
CLEAN = {"shown": 0, "reached": 60, "trials": 61, "upper_bound": 0.0487}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = overlay_path()
    assert path is not None
    return path


def run(*findings, subject: Subject = WHEEL, **changes) -> TrialRun:
    return a_run(*findings, subject=subject, **changes)


def test_a_found_defect_is_read_back_by_the_loader(home: Path) -> None:
    # GIVEN a run on a build that the shipped data only presumes to be affected
    subject = OURS.model_copy(update={"build": 12_000})
    trials = [made("crashed", judgement=judged("D2"))]
    # WHEN it is remembered
    assert update_overlay(run(finding(), subject=subject, trials=trials)) == home
    # THEN the loader has it as a witness, with its method, its count and the route
    known = known_defects()
    standing = known.affected("D2", 12_000)
    assert standing.status == "affected"
    assert "verify pinned: 1 of 2 trials showed it (measured, 2026-12-02, local)" in standing.because
    assert known.route_standing("D2", "/tokenize", 12_000).status == "affected"


def test_a_clean_run_keeps_its_trials_and_what_they_leave_possible() -> None:
    update_overlay(run(finding("D1", "sound", **CLEAN), subject=OURS.model_copy(update={"build": 11_145})))
    known = known_defects()
    standing = known.affected("D1", 11_145)
    assert standing.status == "fixed"
    assert "0 of 60 trials" in standing.because
    assert "at most 4.9% at 95 %" in standing.because
    assert known.affected("D1", 11_146).status == "unmeasured"
    (witness,) = known.local
    assert (witness.trials, witness.bound, witness.routes) == (60, 0.0487, ())


@pytest.mark.parametrize(
    "nothing",
    [
        run(finding(), interrupted=True),
        run(finding(conclusion="inconclusive")),
        run(finding("D1", "sound", shown=0, reached=0, trials=9)),
        run(),
        run(finding(), subject=Subject(kind="native", name="stripped", build=11_549)),
        run(finding(), subject=Subject(kind="remote", name="somewhere")),
    ],
)
def test_what_says_nothing_adds_nothing(home: Path, nothing: TrialRun) -> None:
    update_overlay(nothing)
    assert read_overlay(home) == ()


@pytest.mark.parametrize(
    ("subject", "stock"),
    [
        (WHEEL, True),
        (OURS, True),
        (OURS.model_copy(update={"asan": True}), True),
        (OURS.model_copy(update={"fix": "count-requests"}), False),  # whatever it claims to be
        (OURS.model_copy(update={"stock": False}), False),  # the user's own binary or tree
        (WHEEL.model_copy(update={"build": 11_550}), False),  # a known wheel under another number
        (WHEEL.model_copy(update={"build_id": "00" * 20}), False),  # a number without the wheel's build-id
        (OURS.model_copy(update={"build": None}), False),
    ],
)
def test_only_a_stock_build_speaks_for_its_number(subject: Subject, stock: bool) -> None:
    (witness,) = witnesses_of(run(finding(), subject=subject))
    assert witness.stock is stock


@pytest.mark.parametrize("conclusion", ["affected", "sound"])
def test_a_patched_build_leaves_the_stock_one_as_it_was(conclusion: str) -> None:
    before = known_defects().affected("D2", 11_368)
    said = finding("D2", conclusion, **(CLEAN if conclusion == "sound" else {}))
    update_overlay(run(said, subject=OURS.model_copy(update={"fix": "count-requests"})))
    known = known_defects()
    assert known.affected("D2", 11_368) == before
    own = known.affected_wheel("D2", OURS.build_id)
    assert own is not None
    assert own.status == ("fixed" if conclusion == "sound" else "affected")


def test_a_crash_of_another_defect_is_no_witness_of_its_route() -> None:
    trials = [
        made("crashed", judgement=judged("D2")),
        made("crashed", judgement=judged("D1")).model_copy(update={"route": "POST /other"}),
        made("answered").model_copy(update={"route": "POST /fine"}),
        made("crashed", reached=False).model_copy(update={"route": "POST /missed"}),
    ]
    (witness,) = witnesses_of(run(finding(), trials=trials))
    assert witness.routes == ("POST /tokenize",)


def test_runs_add_up_and_the_same_one_is_kept_once(home: Path) -> None:
    update_overlay(run(finding("D2")))
    update_overlay(run(finding("D3")))
    update_overlay(run(finding("D2")))
    assert [witness.defect for witness in read_overlay(home)] == ["D2", "D3"]


def test_what_a_person_wrote_there_stays_byte_for_byte(home: Path) -> None:
    home.parent.mkdir(parents=True)
    home.write_text("# my own note\nschema = 1   # keep\n")
    update_overlay(run(finding()))
    assert home.read_text().startswith("# my own note\nschema = 1   # keep\n")
    assert len(read_overlay(home)) == 1


@pytest.mark.parametrize("text", ["not = = toml", "schema = 9\n", "schema = 1\n[[witness]]\nx = 1\n", "\x00"])
def test_a_bad_file_is_named_and_left_alone(home: Path, text: str) -> None:
    home.parent.mkdir(parents=True)
    home.write_text(text)
    with pytest.raises(UserError) as caught:
        update_overlay(run(finding()))
    assert str(home) in str(caught.value)
    assert home.read_text() == text
    assert [path.name for path in home.parent.iterdir() if path.suffix != ".lock"] == [home.name]


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    with pytest.raises(UserError, match="cannot be written"):
        update_overlay(run(finding()))


def test_a_write_that_fails_leaves_the_old_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update_overlay(run(finding("D2")))
    before = home.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UserError, match="no space left"):
        update_overlay(run(finding("D3")))
    assert home.read_bytes() == before


def test_a_pipe_in_its_place_does_not_hang(home: Path) -> None:
    home.parent.mkdir(parents=True)
    os.mkfifo(home)
    with pytest.raises(UserError, match="is no file"):
        update_overlay(run(finding()))


def test_a_link_is_kept_and_its_target_filled(home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text("schema = 1\n")
    home.parent.mkdir(parents=True)
    home.symlink_to(kept)
    update_overlay(run(finding()))
    assert home.is_symlink()
    assert len(read_overlay(kept)) == 1


def test_two_verifiers_at_once_lose_nothing(home: Path) -> None:
    numbers = range(12_000, 12_016)
    subjects = [OURS.model_copy(update={"build": number}) for number in numbers]
    threads = [
        threading.Thread(target=update_overlay, args=(run(finding(), subject=each),)) for each in subjects
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(witness.build or 0 for witness in read_overlay(home)) == list(numbers)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(text=st.text(max_size=80))
def test_any_text_of_a_subject_is_read_back(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        trials = [made("crashed").model_copy(update={"route": f"POST /{text}"})]
        path = update_overlay(a_run(finding(), subject=WHEEL, method=f"m{text}", trials=trials))
        (witness,) = read_overlay(path)
        assert witness.how.isprintable()
        assert witness.routes
        assert known_defects().notes == ()


def test_a_survey_adds_its_defects_and_not_its_own_questions(home: Path) -> None:
    # GIVEN the findings of verify routes: a defect, and two answers to questions of the survey
    quiet = {"shown": 0, "reached": 235, "trials": 235, "upper_bound": None}
    findings = (finding("D1"), finding("ANSWERS", "sound", **quiet), finding("PROMISE", "affected"))
    # WHEN they are remembered
    update_overlay(run(*findings, subject=OURS, method="routes"))
    # THEN the overlay can be read, and knows the defect alone
    assert [(each.defect, each.status) for each in read_overlay(home)] == [("D1", "affected")]
