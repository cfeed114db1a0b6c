"""A wrong option points to the help of the command that was typed, where the right ones stand."""

from __future__ import annotations

import pytest

from analyzers.cli.main import main


@pytest.mark.parametrize(
    ("line", "help_of"),
    [
        ("triage --nope", "triage"),
        ("explain --nope", "explain"),
        ("collect --nope", "collect"),
        ("verify nomethod", "verify"),
        ("verify leak --seed 3", "verify leak"),
        ("verify pinned --trials 0", "verify pinned"),
        ("verify pinned --json", "verify"),  # the parser does not say which method's option lacks its value
        ("reference nothing", "reference"),
        ("reference build --build x", "reference build"),
        ("reference diff", "reference diff"),
    ],
)
def test_a_wrong_line_names_the_help_that_has_the_right_one(
    line: str, help_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert said.rstrip().endswith(f"; see llama-blackbox {help_of} --help")
    assert len(said.splitlines()) == 1
