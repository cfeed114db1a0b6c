"""The dispatcher: every problem is one line, every status is the documented one."""

from __future__ import annotations

import re
import sys
import types

import pytest

from analyzers.cli import main as dispatcher
from analyzers.cli import registry
from analyzers.cli.registry import Verb
from analyzers.errors import UserError


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = dispatcher.main(args)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def fake_verb(monkeypatch: pytest.MonkeyPatch, behaviour: object) -> None:
    module = types.ModuleType("fake_verb_module")
    module.app = behaviour  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_verb_module", module)
    monkeypatch.setitem(registry.VERBS, "fake", Verb("fake", "fake_verb_module:app", "for tests"))


def raising(problem: BaseException) -> object:
    def app(**_: object) -> int:
        raise problem

    return app


def test_help_lists_every_verb_and_every_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0
    for name in registry.VERBS:
        assert name in out
    for number, _meaning in dispatcher.EXIT_STATUSES:
        assert f"\n  {number}  " in out


def test_a_verb_without_its_extra_is_listed_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    poor = Verb("poor", "nowhere:app", "needs more", "lab", ("no_such_package_here",))
    monkeypatch.setitem(registry.VERBS, "poor", poor)
    _, out, _ = run(capsys, "--help")
    assert "poor" in out
    assert "pip install" in out
    assert "gguf" in out
    status, _, err = run(capsys, "poor")
    assert status == 2
    assert err.count("\n") == 1
    assert "no_such_package_here" in err
    assert "llama-blackbox[lab]" in err
    assert re.search(r"run: \S+ -m pip install .*gguf", err)


def test_an_unknown_verb_is_one_line_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "triagge")
    assert status == 2
    assert err.count("\n") == 1
    assert "did you mean 'triage'" in err


def test_help_loads_no_verb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(registry.VERBS, "broken", Verb("broken", "no_such_module:app", "would not import"))
    status, out, _ = run(capsys)
    assert status == 0
    assert "broken" in out


def test_a_user_error_is_printed_once_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_verb(monkeypatch, raising(UserError("is empty", where="core\x1b[31m", remedy="give another")))
    status, _, err = run(capsys, "fake")
    assert status == 2
    assert err == "llama-blackbox: core?[31m: is empty; give another\n"


def test_an_internal_error_is_one_line_and_a_traceback_only_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_verb(monkeypatch, raising(KeyError("secret")))
    status, _, err = run(capsys, "fake")
    assert status == 1
    assert err.count("\n") == 1
    assert "KeyError" in err
    assert "secret" not in err
    with pytest.raises(KeyError):
        dispatcher.main(["fake", "--debug"])


def test_interrupt_has_the_shells_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_verb(monkeypatch, raising(KeyboardInterrupt()))
    assert run(capsys, "fake")[0] == 130


@pytest.mark.parametrize(
    "args", [["triage", "x", "--pid", "1"], ["triage", "--no-such-option", "x"], ["explain", "a", "b"]]
)
def test_a_wrong_command_line_is_one_line_and_status_2(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, *args)
    assert status == 2
    assert err.count("\n") == 1


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--version")
    assert (status, out.split()[0]) == (0, "llama-blackbox")
