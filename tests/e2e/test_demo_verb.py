"""`llama-blackbox demo`, as `make demo` runs it: three real faults, three right verdicts, one page."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from e2e_ask import command
from e2e_stage import STALE, Play, Plays
from test_console_command import loads

from analyzers.cli.main import main
from collector.lab.demo import cli
from collector.lab.demo.scenes import Played, Scene
from collector.lab.faults.provoked import Expected

pytestmark = pytest.mark.real


def test_the_demo_diagnoses_three_of_three_and_writes_its_page(tmp_path: Path) -> None:
    # WHEN
    done = command("demo", "--output", tmp_path / "demo")
    # THEN it says so at the end, with a row for each
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert re.search(r"^3 of 3 diagnosed in \d+ s$", done.stdout, re.MULTILINE)
    table = done.stdout[done.stdout.index("provoked") :]
    for row in ("D1 SEGV-UAF-SLEEP", "D2 SEGV-UAF-SLEEP", "D3 HANG-STRANDED"):
        assert row in table
    assert table.count("right") == 3
    assert "WRONG" not in table
    # AND the page it names is there, names all three, and loads nothing
    page = Path(re.findall(r"^HTML report: (.+)$", done.stdout, re.MULTILINE)[0])
    assert page.parent == (tmp_path / "demo").resolve()
    text = page.read_text()
    assert all(defect in text for defect in ("D1", "D2", "D3"))
    assert loads(text) == []


def demo(monkeypatch: pytest.MonkeyPatch, folder: Path, *scenes: Scene) -> tuple[int, str]:
    """The verb in this process, on these scenes: its status and what it printed."""
    monkeypatch.setattr(cli, "SCENES", scenes)
    monkeypatch.setenv("COLUMNS", "160")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(["demo", "--output", str(folder)])
    return status, out.getvalue()


def scene(play: Play, expected: Expected, *, happened: bool = True) -> Scene:
    """A scene that hands over what was played already; without its core, over which gdb takes seconds."""
    inputs = (play.bundle,) if happened else ()
    remarks = () if happened else ("the server did not go to sleep in time",)
    return Scene("D1", "as played", STALE, lambda *_: Played(inputs, expected, happened, remarks))


def test_the_demo_is_right_about_what_was_played(
    plays: Plays, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play = plays("d1")
    status, out = demo(monkeypatch, tmp_path, scene(play, play.provoked.expected))
    assert (status, "1 of 1 diagnosed" in out) == (0, True)


@pytest.mark.parametrize(
    "wrong",
    [{"defect": "D2"}, {"class_": "SEGV"}, {"causes": ("sleep",)}, {"phases": ("asleep",)}],
    ids=["defect", "class", "cause", "phase"],
)
def test_the_demo_fails_and_says_which_when_an_expectation_is_not_met(
    plays: Plays, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: dict[str, object]
) -> None:
    # GIVEN a real D1 of which the demo expects something else
    play = plays("d1")
    right = scene(play, play.provoked.expected)
    other = replace(scene(play, replace(play.provoked.expected, **wrong)), defect="DX", title="the odd one")
    # WHEN
    status, out = demo(monkeypatch, tmp_path, right, other)
    # THEN
    assert status == 1
    assert "1 of 2 diagnosed" in out
    rows = [line for line in out.splitlines() if "WRONG" in line]
    assert len(rows) == 1
    assert "DX" in rows[0]


def test_the_demo_fails_when_a_fault_does_not_happen(
    plays: Plays, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play = plays("d1")
    missed = scene(play, play.provoked.expected, happened=False)
    status, out = demo(monkeypatch, tmp_path, missed)
    assert (status, "0 of 1 diagnosed" in out) == (1, True)
    assert "did not go to sleep" in out


def test_a_server_that_cannot_be_prepared_is_not_run_and_no_wrong_diagnosis(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # GIVEN a version that no machine can prepare
    missing = Scene("D1", "as never played", "not-a-version", lambda *_: pytest.fail("played"))
    # WHEN
    status, out = demo(monkeypatch, tmp_path, missing)
    # THEN
    assert status == 1
    assert "not run" in out
    assert "WRONG" not in out
