"""A finished run on its way out: each output tried, each failure named, and the status that says it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from trial_builder import a_run, finding, made

from analyzers.contracts.trials import (
    CRASHED,
    EXIT_DEFECT,
    EXIT_INCONCLUSIVE,
    EXIT_INTERRUPTED,
    EXIT_SOUND,
    Subject,
    TrialRun,
)
from analyzers.errors import UserError
from collector.lab.verify.options import Outputs
from collector.lab.verify.outputs import deliver, demand_writable, write

AFFECTED, SOUND, OPEN = finding(), finding("D2", "sound", upper_bound=0.05), finding("D2", "inconclusive")


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (a_run(SOUND), EXIT_SOUND),
        (a_run(AFFECTED, OPEN), EXIT_DEFECT),
        (a_run(OPEN, SOUND), EXIT_INCONCLUSIVE),
        (a_run(), EXIT_INCONCLUSIVE),
        (a_run(SOUND, interrupted=True), EXIT_INTERRUPTED),
        (a_run(AFFECTED, interrupted=True), EXIT_INTERRUPTED),
        (a_run(AFFECTED, problem="the disk is full"), EXIT_DEFECT),
    ],
)
def test_exit_statuses(run: TrialRun, status: int) -> None:
    assert deliver(run, Outputs()) == status


@pytest.mark.parametrize("run", [a_run(OPEN, problem="the disk is full"), a_run(problem="the disk is full")])
def test_a_run_that_ended_early_without_a_defect_is_unusable(
    run: TrialRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="the disk is full") as raised:
        deliver(run, Outputs())
    assert raised.value.status == 2
    assert "ended early" in capsys.readouterr().out


def test_json_on_stdout_is_nothing_but_json(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(a_run(AFFECTED, trials=[made(CRASHED, signal=11)]), Outputs(json="-"))
    said = capsys.readouterr()
    assert json.loads(said.out)["schema"] == "llama-blackbox/trials/1"
    assert "affected" in said.err


def test_json_on_a_terminal_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = Subject(kind="native", name="b1\u009b31m\u202e")
    deliver(a_run(AFFECTED, subject=hostile), Outputs(json="-"))
    out = capsys.readouterr().out
    assert "\u009b" not in out
    assert json.loads(out)["subject"]["name"] == hostile.name


def test_findings_on_a_terminal_steer_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(a_run(finding(because="\x1b[31mred\u009b")), Outputs())
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "?[31mred" in out


def test_every_file_is_written_and_replaces_an_older_one(tmp_path: Path) -> None:
    path, junit = tmp_path / "run.json", tmp_path / "run.xml"
    path.write_text("old")
    deliver(a_run(AFFECTED), Outputs(json=str(path), junit=junit))
    assert json.loads(path.read_text())["method"] == "pinned"
    assert junit.read_text().startswith("<?xml")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.json", "run.xml"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_one_output_that_fails_takes_no_other_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "run.xml"
    outputs = Outputs(json=str(tmp_path / "nowhere" / "run.json"), junit=junit)
    with pytest.raises(UserError, match="no such file"):
        deliver(a_run(AFFECTED), outputs)
    assert junit.exists()
    assert "affected" in capsys.readouterr().out


def test_the_first_of_two_failures_is_raised_and_the_other_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = Outputs(json=str(tmp_path / "no" / "a"), junit=tmp_path / "no" / "b")
    with pytest.raises(UserError, match="/a"):
        deliver(a_run(AFFECTED), outputs)
    assert "no/b: cannot be written" in capsys.readouterr().out.replace("\n", "")


def test_a_link_is_not_followed_and_a_half_file_never_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, link, path = tmp_path / "other", tmp_path / "link", tmp_path / "new"
    other.write_text("mine")
    link.symlink_to(other)
    with pytest.raises(UserError, match="link"):
        write(link, "text")
    assert other.read_text() == "mine"

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(UserError, match="no space left"):
        write(path, "text")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "other"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_standard_output_is_named_and_the_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(UserError, match="standard output"):
            deliver(a_run(AFFECTED), Outputs(junit=tmp_path / "run.xml"))
        monkeypatch.undo()
    assert (tmp_path / "run.xml").exists()


@pytest.mark.parametrize("name", ["missing/run.json", "folder", "link"])
def test_outputs_that_will_not_be_writable_are_refused_before_the_trials(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError):
        demand_writable(Outputs(json=str(tmp_path / name)))
    with pytest.raises(UserError):
        demand_writable(Outputs(junit=tmp_path / name))


def test_outputs_that_can_be_written_are_not_refused(tmp_path: Path) -> None:
    demand_writable(Outputs())
    demand_writable(Outputs(json="-", junit=tmp_path / "run.xml", reproducer=tmp_path / "new" / "deeper"))


def test_a_reproducer_where_something_stands_is_refused_before_the_trials(tmp_path: Path) -> None:
    (tmp_path / "reproduce.py").write_text("mine")
    with pytest.raises(UserError, match="already"):
        demand_writable(Outputs(reproducer=tmp_path))
