"""What is asked for in vain: said, and no verdict changed by it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from analyzers.contracts.trials import Subject, TrialRun
from analyzers.errors import UserError
from collector.lab.verify import outputs
from collector.lab.verify.progress import Voice
from collector.lab.verify.routes.cli import routes


def test_a_clean_run_writes_no_reproducer_and_says_so(tmp_path: Path) -> None:
    # GIVEN a run that showed nothing
    run = TrialRun(
        tool="0",
        catalogue="0",
        method="pinned",
        subject=Subject(kind="native", name="b1"),
        date="2026-12-02",
        started=0.0,
    )
    said = io.StringIO()
    # WHEN its reproducer is asked for THEN there is none, and no error either: the status stays the finding's
    outputs._write_reproducer(run, tmp_path / "rep", Voice(file=said))
    assert "no reproducer is written" in said.getvalue()
    assert not (tmp_path / "rep").exists()


def test_a_host_to_touch_without_a_target_is_refused() -> None:
    with pytest.raises(UserError, match="--touch-host"):
        routes(touch_host="127.0.0.1")
