"""`triage` of several deaths: the table, one of them by its number, and how far the reading is."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzers.cli import progress as module
from analyzers.cli.hosting import Selection
from analyzers.cli.progress import PATIENCE, SLOW_TEXT, Progress, sentence
from analyzers.cli.screen import typed
from analyzers.triage.inputs import Source
from analyzers.triage.sniff import Look

COMMAND = Path(sys.executable).with_name("llama-blackbox")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    argv = [COMMAND, "triage", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", ["0", "-1", "x", "2", "99999999999999999999", ""])
def test_a_number_that_is_none_is_refused_in_one_line(tmp_path: Path, number: str) -> None:
    # GIVEN one incident WHEN another one is asked for THEN one line, and nothing on standard output
    log = tmp_path / "server.log"
    log.write_text("0.00.000.100 I srv  llama_server: initializing ...\n")
    done = run(log, f"--incident={number}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "incident" in done.stderr


def test_the_only_incident_has_the_number_one(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("0.00.000.100 I srv  llama_server: initializing ...\n")
    done = run(log, "--incident", "1", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["incident"] == 1


@dataclass
class Terminal(io.StringIO):
    tty: bool = True

    def __post_init__(self) -> None:
        super().__init__()

    def isatty(self) -> bool:
        return self.tty


def source(name: str = "core.1", kind: str = "core", size: int = 1) -> Source:
    return Source(Path(name), name, size, None, Look(kind))


def told(monkeypatch: pytest.MonkeyPatch, times: Sequence[float], *, tty: bool) -> str:
    """What stands on standard error after eight cores, each read at one of ``times`` (seconds)."""
    stream = Terminal(tty)
    monkeypatch.setattr(sys, "stderr", stream)
    clock = iter([0.0, *times, times[-1]])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    said = Progress(started=module.time.monotonic())
    inputs = [source() for _ in range(8)]
    for read in range(len(times)):
        said(read, inputs)
    said(8, inputs)
    said.done()
    return stream.getvalue()


def test_quick_readings_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, [0.1 * n for n in range(8)], tty=True) == ""


def test_slow_ones_say_how_far_they_are_and_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, [0.4 * n for n in range(8)], tty=True)
    assert "\r3 of 8 cores read" in text
    assert "2 of 8 cores read" not in text
    assert text.endswith("\r" + " " * len("7 of 8 cores read") + "\r")
    assert "\n" not in text
    assert "\x1b" not in text


def test_a_file_gets_lines_and_not_many(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, [PATIENCE + 2.0 * n for n in range(8)], tty=False)
    assert text.splitlines() == ["0 of 8 cores read", "3 of 8 cores read", "6 of 8 cores read"]


def test_a_text_that_takes_long_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal(False)
    monkeypatch.setattr(sys, "stderr", stream)
    Progress()(0, [source("big\x1b[31m.log", "server-log", SLOW_TEXT)])
    assert stream.getvalue().startswith("reading big")
    assert "\x1b" not in stream.getvalue()
    assert sentence(1, [source(), source("b", "server-log")]) == "1 of 2 inputs read"


def test_nobody_on_standard_error_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    silenced: list[int] = []
    monkeypatch.setattr(sys, "stderr", Gone())
    monkeypatch.setattr(module, "silence", silenced.append)
    Progress(started=-PATIENCE)(0, [source(), source()])
    assert silenced == [2]


def test_the_command_can_be_given_again() -> None:
    cores = [Path("core.1"), Path("a b/core.2")]
    assert typed(cores, [("--exe", None)], None) == "llama-blackbox triage core.1 'a b/core.2'"
    assert typed(cores, [("--exe", Path("bin/x"))], Selection()) == (
        "llama-blackbox triage core.1 'a b/core.2' --exe bin/x"
    )
    assert typed([], [], Selection(since="2 h")) == "llama-blackbox triage --since '2 h'"


@pytest.mark.parametrize("path", ["-", "/home/jane/core", "~/core"])
def test_a_command_that_tells_too_much_or_cannot_be_repeated_is_not_shown(path: str) -> None:
    assert typed([Path(path)], [], None) is None
