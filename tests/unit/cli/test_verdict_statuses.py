"""A verb whose exit status 1 is an answer: nothing that goes wrong may end with it, or with 0."""

from __future__ import annotations

import sys
import types

import pytest

from analyzers.cli import main as dispatcher
from analyzers.cli import registry
from analyzers.cli.registry import VERBS, Verb
from analyzers.errors import EXIT_FAILED, EXIT_UNUSABLE, UserError


class OddError(UserError):
    """An error of the user that elsewhere means: ran and failed."""

    status = EXIT_FAILED


def judging(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    def app(**_: object) -> int:
        raise problem

    module = types.ModuleType("judging_module")
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "judging_module", module)
    verb = Verb("judge", "judging_module:app", "for tests", failure_status=EXIT_UNUSABLE)
    monkeypatch.setitem(registry.VERBS, "judge", verb)
    monkeypatch.setattr(dispatcher, "silence", lambda _: None)


@pytest.mark.parametrize(
    "problem",
    [
        KeyError("x"),
        MemoryError(),
        RecursionError(),
        AssertionError(),
        OSError(28, "No space left on device"),
        ImportError("gone"),
        OddError("ended", where="server", remedy="look"),
        UserError("bad", where="x", remedy="y"),
        SystemExit(1),
        BrokenPipeError(),
    ],
    ids=lambda problem: type(problem).__name__,
)
@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_whatever_goes_wrong_is_status_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: BaseException,
    debug: list[str],
) -> None:
    judging(monkeypatch, problem)
    assert dispatcher.main(["judge", *debug]) == EXIT_UNUSABLE


def test_an_internal_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judging(monkeypatch, ZeroDivisionError("secret"))
    dispatcher.main(["judge"])
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "ZeroDivisionError" in said
    assert "secret" not in said


def test_debug_shows_where_it_broke(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judging(monkeypatch, ZeroDivisionError("secret"))
    dispatcher.main(["judge", "--debug"])
    assert "Traceback" in capsys.readouterr().err


def test_a_verb_that_cannot_be_loaded_is_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verb = Verb("judge", "no_module_of_this_name:app", "for tests", failure_status=EXIT_UNUSABLE)
    monkeypatch.setitem(registry.VERBS, "judge", verb)
    assert dispatcher.main(["judge"]) == EXIT_UNUSABLE
    assert capsys.readouterr().err.count("\n") == 1


def test_an_exit_with_another_status_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    judging(monkeypatch, SystemExit(0))
    with pytest.raises(SystemExit):
        dispatcher.main(["judge"])


def test_an_interrupt_keeps_its_own_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judging(monkeypatch, KeyboardInterrupt())
    assert dispatcher.main(["judge"]) == 130


def test_verify_is_such_a_verb() -> None:
    assert VERBS["verify"].failure_status == EXIT_UNUSABLE
    assert registry.failure_status(["verify", "directed"]) == EXIT_UNUSABLE
    assert registry.failure_status(["triage"]) == EXIT_FAILED
    assert registry.failure_status([]) == EXIT_FAILED
