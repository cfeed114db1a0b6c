"""How the end of a reference server is told: by itself, or because somebody asked for it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.lab.reference.cli import told_to_end
from collector.lab.verify.program import demand_program


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_from_outside_is_somebodys(number: int) -> None:
    told = told_to_end(number, None)
    assert told is not None
    assert signal.Signals(number).name in told
    assert "by itself" not in told


@pytest.mark.parametrize(("number", "code"), [(11, None), (6, None), (7, None), (None, 1), (None, None)])
def test_a_fault_or_an_error_is_its_own(number: int | None, code: int | None) -> None:
    assert told_to_end(number, code) is None


def test_an_orderly_end_is_not_said_to_be_its_own_idea() -> None:
    assert "SIGTERM" in (told_to_end(None, 0) or "")


def test_an_empty_program_is_refused_by_the_options_name() -> None:
    with pytest.raises(UserError, match="--server-bin: no file is named") as refused:
        demand_program(Path(""))
    assert "\n" not in str(refused.value)
