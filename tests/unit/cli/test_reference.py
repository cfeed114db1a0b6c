"""docs/cli.md says what the command does: every verb, option and exit status is in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from analyzers.cli.main import EXIT_STATUSES
from analyzers.cli.registry import VERBS

REFERENCE = Path(__file__).parents[3] / "docs" / "cli.md"


def sections() -> dict[str, str]:
    parts = re.split(r"^## ([\w-]+)\n", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def options(app: Any) -> set[str]:
    command: Any = typer.main.get_command(app)
    commands = [command, *getattr(command, "commands", {}).values()]
    parameters = [parameter for each in commands for parameter in each.params]
    return {name for parameter in parameters for name in parameter.opts if name.startswith("--")}


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_verb_and_option_is_described_and_nothing_else(name: str) -> None:
    text = sections()[name]
    described = set(re.findall(r"^\| `(--[\w-]+)", text, flags=re.MULTILINE))
    assert described == options(VERBS[name].load()) - {"--help"}


def test_every_exit_status_is_described() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    for status, _ in EXIT_STATUSES:
        assert f"| {status} |" in text


def test_the_readme_names_only_options_that_exist() -> None:
    readme = (REFERENCE.parents[1] / "README.md").read_text(encoding="utf-8")
    known = set().union(*(options(verb.load()) for verb in VERBS.values()))
    used = set(re.findall(r"^llama-blackbox [^\n#]*?(--[\w-]+)", readme, flags=re.MULTILINE))
    assert used <= known
    assert used
