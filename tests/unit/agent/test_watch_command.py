"""The watch verb: the short way says the same as typer's, and ends in one line for what cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analyzers.cli.main import main
from collector.agent import command


@pytest.fixture
def carried(monkeypatch):
    seen = []
    monkeypatch.setattr(command, "carry_out", lambda *given: seen.append(given) or 0)
    return seen


@pytest.mark.parametrize(
    ("args", "config", "outbox"),
    [
        ([], None, None),
        (["--config", "a"], "a", None),
        (["--config=a", "--outbox", "b"], "a", "b"),
        (["--outbox=b"], None, "b"),
    ],
)
def test_a_plain_command_line_needs_no_typer(carried, args, config, outbox):
    assert command.plainly(args) == 0
    assert carried == [(Path(config) if config else None, Path(outbox) if outbox else None)]


@pytest.mark.parametrize(
    "args", [["--once"], ["--config"], ["--config="], ["x"], ["--config", "--once"], ["-h"], ["--help"]]
)
def test_any_other_is_left_to_typer(carried, args):
    assert command.plainly(args) is None
    assert carried == []


def test_settings_that_cannot_be_used_are_one_line(tmp_path, capsys):
    (tmp_path / "agent.toml").write_text("[agent]\nstat = 1\n")
    assert main(["watch", "--config", str(tmp_path / "agent.toml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_settings_can_be_checked(tmp_path, capsys):
    (tmp_path / "agent.toml").write_text("[probes]\nenabled = false\n")
    assert main(["watch", "--check-config", "--config", str(tmp_path / "agent.toml")]) == 0
    assert "can be used" in capsys.readouterr().out


def test_an_outbox_that_is_no_folder_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert main(["watch", "--outbox", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_agent_without_probes_loads_neither_an_http_client_nor_a_terminal():
    words = (
        "import sys, collector.agent.command, collector.agent.assembly, collector.agent.service.running; "
        "print(sorted({'httpx', 'rich', 'typer', 'asyncio'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
