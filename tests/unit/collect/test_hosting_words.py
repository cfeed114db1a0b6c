"""Triage without inputs: the collector picks them, or one line says what is missing."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from analyzers.cli import hosting
from analyzers.cli.hosting import Selection, selected
from analyzers.cli.main import main


def test_an_installation_without_a_part_says_which_extra_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # GIVEN no collector at all, or one whose own need is not installed
    (tmp_path / "half_a_collector.py").write_text("import no_such_package_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module, gone in (
        ("no_collector.hostpick", "no_collector"),
        ("half_a_collector", "no_such_package_anywhere"),
    ):
        monkeypatch.setattr(hosting, "SELECTOR", (module, "select"))
        # WHEN / THEN
        assert main(["triage"]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"needs {gone}" in said
        assert "llama-blackbox[agent]" in said


def test_what_was_picked_is_said_and_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # GIVEN a selector that writes one input
    asked: dict[str, Any] = {}

    def select(folder: Path, **options: Any) -> tuple[list[Path], list[str]]:
        asked.update(options)
        (folder / "x").write_text("evidence")
        return [folder / "x"], ["a death\x1b[31m"]

    stub = ModuleType("stub_selector")
    stub.select = select  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "stub_selector", stub)
    monkeypatch.setattr(hosting, "SELECTOR", ("stub_selector", "select"))
    # WHEN
    with ExitStack() as stack:
        inputs = selected(Selection(unit="llama", since="2h"), True, stack)
        assert inputs[0].read_text() == "evidence"
        assert inputs[0].parent.stat().st_mode & 0o077 == 0
    # THEN
    assert not inputs[0].exists()
    assert asked == {
        "unit": "llama",
        "pid": None,
        "since": "2h",
        "boot": None,
        "journal": None,
        "include_private": True,
    }
    said = capsys.readouterr().err
    assert said.startswith("on this host: a death")
    assert "\x1b" not in said


@pytest.mark.parametrize("option", [["--unit", "x"], ["--pid", "1"], ["--since", "1h"], ["--boot", "0"]])
def test_inputs_and_a_selection_exclude_each_other(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("x\n")
    assert main(["triage", str(tmp_path / "log"), *option]) == 2
    assert "exclude each other" in capsys.readouterr().err
