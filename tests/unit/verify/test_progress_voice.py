"""Lines of progress: plain, alive, and never a reason to lose the run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time

import pytest

from collector.lab.verify import progress
from collector.lab.verify.progress import Progress, Voice


def test_lines_carry_seconds_and_no_control_characters() -> None:
    file = io.StringIO()
    with Progress(Voice(file=file), time.time()) as said:
        said.say("trial 1\x1b[31m [bold]not markup[/bold]")
    assert file.getvalue().endswith(" s  trial 1?[31m [bold]not markup[/bold]\n")


def test_a_long_quiet_time_says_that_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    file = io.StringIO()
    with Progress(Voice(file=file), time.time()):
        end = time.monotonic() + 20
        while "still at work" not in file.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    assert "still at work" in file.getvalue()


def test_a_terminal_shows_that_something_moves_and_is_left_clean() -> None:
    file = io.StringIO()
    voice = Voice(file=file, force_terminal=True, width=100)
    with Progress(voice, time.time()) as said:
        said.say("trial 1")
    assert "trial 1" in file.getvalue()
    assert "\x1b[?25h" in file.getvalue()  # the cursor is back


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_under_the_lines_ends_no_run() -> None:
    voice = Voice(file=Full())
    voice.tell("one")
    voice.tell("two")
    assert voice.quiet


def test_a_reader_that_went_away_ends_no_run() -> None:
    """Rich would raise SystemExit(1) here: the status of a found defect."""
    code = (
        "import sys, time\n"
        "from collector.lab.verify.progress import Voice\n"
        "voice = Voice(file=sys.stdout)\n"
        "for _ in range(2000): voice.tell('x' * 200)\n"
        "print('done', file=sys.stderr)\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writing)
    assert done.stderr.decode().strip().endswith("done")
    assert done.returncode == 0


def test_a_later_voice_knows_that_its_descriptor_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOST", set())
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        assert not Voice(file=file).lost
        Voice(file=file).give_up()
        assert Voice(file=file).lost
    os.close(reading)
    assert not Voice(file=io.StringIO()).lost
