"""A finished run on its way out: each output tried, each failure named, and the status that says it."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from trial_builder import a_run, finding, made

from analyzers.cli.output import prepare_streams
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
    deliver(a_run(AFFECTED), Outputs(json=str(path), junit=str(junit)))
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
    outputs = Outputs(json=str(tmp_path / "nowhere" / "run.json"), junit=str(junit))
    with pytest.raises(UserError, match="no such file"):
        deliver(a_run(AFFECTED), outputs)
    assert junit.exists()
    assert "affected" in capsys.readouterr().out


def test_the_first_of_two_failures_is_raised_and_the_other_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = Outputs(json=str(tmp_path / "no" / "a"), junit=str(tmp_path / "no" / "b"))
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
            deliver(a_run(AFFECTED), Outputs(junit=str(tmp_path / "run.xml")))
        monkeypatch.undo()
    assert (tmp_path / "run.xml").exists()


def test_junit_on_stdout_is_nothing_but_xml(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    deliver(a_run(finding(because="\u202e\u009b31m")), Outputs(junit="-"))
    said = capsys.readouterr()
    assert said.out.startswith("<?xml")
    assert said.out.isascii()
    assert ET.fromstring(said.out.encode()).tag == "testsuites"  # noqa: S314 - our own
    assert "affected" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_may_be_called_a_dash_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    deliver(a_run(AFFECTED), Outputs(junit="./-"))
    assert (tmp_path / "-").read_text().startswith("<?xml")


@pytest.mark.parametrize("name", ["missing/run.json", "folder", "link", "file/run.json", "x" * 300, ""])
def test_outputs_that_will_not_be_writable_are_refused_before_the_trials(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    place = str(tmp_path / name) if name else ""
    for outputs in (Outputs(json=place), Outputs(junit=place), Outputs(picture=place)):
        with pytest.raises(UserError) as raised:
            demand_writable(outputs)
        assert str(raised.value).isprintable()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder", "link"]


@pytest.fixture(params=["read-only", "impossible"])
def hopeless(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which nothing can be made, whoever asks: of a read-only disk, or of the kernel."""
    if request.param == "impossible":
        return Path("/proc")

    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("collector.lab.verify.writable.tempfile.mkstemp", refused)
    return tmp_path


def test_no_output_waits_for_the_trials_to_find_its_place_hopeless(
    hopeless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(hopeless))
    place = str(hopeless / "run")
    wanted = (
        Outputs(json=place),
        Outputs(junit=place),
        Outputs(picture=place),
        Outputs(reproducer=Path(place)),
        Outputs(reproducer=Path(place, "deeper")),
        Outputs(update_catalogue=True),
    )
    for outputs in wanted:
        with pytest.raises(
            UserError, match=r"cannot be written \((read-only file system|no such file)"
        ) as raised:
            demand_writable(outputs)
        assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [("schema = 9\n", "another version"), ("not toml", "overlay.toml"), ("# x\n" * 300_000, "overlay.toml")],
)
def test_an_overlay_that_could_not_take_the_findings_is_refused_before_the_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, said: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = tmp_path / "llama-blackbox" / "catalogue" / "overlay.toml"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        demand_writable(Outputs(update_catalogue=True))
    assert path.read_text() == content


def test_an_overlay_without_a_home_or_with_a_strange_lock_is_refused_before_the_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "llama-blackbox" / "catalogue"
    demand_writable(Outputs(update_catalogue=True))
    assert not folder.exists()
    folder.mkdir(parents=True)
    (folder / "overlay.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="cannot be opened"):
        demand_writable(Outputs(update_catalogue=True))
    monkeypatch.setattr("collector.lab.verify.overlay.overlay_path", lambda: None)
    with pytest.raises(UserError, match="no home folder"):
        demand_writable(Outputs(update_catalogue=True))


@pytest.mark.parametrize(
    "outputs",
    [
        Outputs(json="-", junit="-"),
        Outputs(json="-", picture="-"),
        Outputs(json="run", junit="./run"),
        Outputs(folder=Path("-")),
        Outputs(reproducer=Path("-")),
    ],
)
def test_two_documents_in_one_place_and_a_folder_on_a_stream_are_refused(outputs: Outputs) -> None:
    with pytest.raises(UserError, match=r"goes there already|not a stream"):
        demand_writable(outputs)


def test_a_document_for_a_closed_standard_output_is_refused_before_the_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # GIVEN a process that was started with standard output closed
    monkeypatch.setattr(sys, "stdout", None)
    prepare_streams()
    # WHEN THEN
    for outputs in (Outputs(json="-"), Outputs(junit="-"), Outputs(picture="-")):
        with pytest.raises(UserError, match="standard output: it is closed"):
            demand_writable(outputs)
    demand_writable(Outputs())


def test_outputs_that_can_be_written_are_not_refused(tmp_path: Path) -> None:
    demand_writable(Outputs())
    demand_writable(
        Outputs(json="-", junit=str(tmp_path / "run.xml"), reproducer=tmp_path / "new" / "deeper")
    )


def test_a_reproducer_where_something_stands_is_refused_before_the_trials(tmp_path: Path) -> None:
    (tmp_path / "reproduce.py").write_text("mine")
    with pytest.raises(UserError, match="already"):
        demand_writable(Outputs(reproducer=tmp_path))
