"""What systemctl show says of a unit: its state, its end, and nothing secret (shape of systemd 252)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzers.contracts.facts import ExitFact, fact_of
from analyzers.privacy.redact import Redactor
from collector.gather.choose import in_unit, only
from collector.gather.servers import Server
from collector.gather.units import exit_evidence, parse_unit, read_unit

SHOWN = """Id=llama.service
LoadState=loaded
ActiveState=failed
Result=core-dump
MainPID=0
ExecMainPID=4242
ExecMainCode=3
ExecMainStatus=11
WorkingDirectory=!/srv/llama
StandardOutput=append:/var/log/llama.log
StandardError=inherit
Environment=LLAMA_ARG_SLEEP_IDLE_SECONDS=60 LLAMA_API_KEY=sk-from-environment "MOTTO=two words"
EnvironmentFiles=FILE (ignore_errors=no)
ExecStart={ path=/usr/bin/llama-server ; argv[]=/usr/bin/llama-server -m /m.gguf --api-key sk-from-args \
--sleep-idle-seconds 60 ; ignore_errors=no ; start_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }
Evil=not asked for
"""


def test_the_state_for_people_has_no_secret() -> None:
    unit = parse_unit("llama.service", SHOWN)
    redactor = Redactor().knowing(args=unit.args, env=unit.environment)
    text = unit.text(redactor)
    assert "Result=core-dump" in text
    assert "LLAMA_ARG_SLEEP_IDLE_SECONDS=60" in text
    assert "--sleep-idle-seconds 60" in text
    assert "sk-from" not in text
    assert "Evil" not in text


def test_where_it_runs_and_writes() -> None:
    unit = parse_unit("llama.service", SHOWN)
    assert unit.folder == Path("/srv/llama")
    assert unit.log_files == [Path("/var/log/llama.log")]
    assert unit.environment["MOTTO"] == "two words"
    assert unit.main_pid is None


@pytest.mark.parametrize(
    ("code", "status", "result", "expected"),
    [
        ("3", "11", "core-dump", (11, None, "core-dump", False)),
        ("2", "9", "oom-kill", (9, None, "oom-kill", True)),
        ("1", "1", "exit-code", (None, 1, "exit-code", False)),
        ("2", "9", "success", (9, None, None, False)),  # restarted since: the result is no longer this end's
    ],
)
def test_how_the_last_run_ended(
    code: str, status: str, result: str, expected: tuple[int | None, int | None, str | None, bool]
) -> None:
    text = SHOWN.replace("Code=3", f"Code={code}").replace("Status=11", f"Status={status}")
    unit = parse_unit("llama.service", text.replace("core-dump", result))
    fact = fact_of(exit_evidence(unit, 4242)[0], ExitFact)
    assert fact is not None
    assert (fact.signal, fact.code, fact.result, fact.oom) == expected


def test_another_process_of_the_unit_or_one_that_lives_has_no_end() -> None:
    assert exit_evidence(parse_unit("llama.service", SHOWN), 4243) == []
    assert exit_evidence(parse_unit("llama.service", SHOWN.replace("MainPID=0", "MainPID=4242")), 4242) == []
    assert (
        exit_evidence(parse_unit("llama.service", SHOWN.replace("ExecMainCode=3", "ExecMainCode=0")), 4242)
        == []
    )


def fake_systemctl(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = folder / "systemctl"
    (folder / "shown.txt").write_text(text)
    tool.write_text(f"#!/bin/sh\ncat {folder / 'shown.txt'}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_environment_files_are_read_and_a_hidden_one_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env").write_text(
        "# note\nLLAMA_ARG_MODEL='/m.gguf'\nexport GGML_X=1\nHF_TOKEN=hf_abcdef\nnonsense\n"
    )
    (tmp_path / "more").write_text("LLAMA_ARG_PORT=1234\n")
    both = f"{tmp_path}/env (ignore_errors=no)\nEnvironmentFiles={tmp_path}/more"
    fake_systemctl(tmp_path, SHOWN.replace("FILE", both), monkeypatch)
    unit, gaps = read_unit("llama.service")
    assert gaps == []
    assert unit.environment["LLAMA_ARG_MODEL"] == "/m.gguf"
    assert unit.environment["GGML_X"] == "1"
    assert unit.environment["LLAMA_ARG_PORT"] == "1234"
    assert "hf_abcdef" not in unit.text(Redactor().knowing(env=unit.environment))

    fake_systemctl(tmp_path, SHOWN.replace("FILE", str(tmp_path / "gone")), monkeypatch)
    assert "may not be read" in read_unit("llama.service")[1][0].why


def test_a_unit_nobody_knows_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_systemctl(tmp_path, "LoadState=not-found\n", monkeypatch)
    unit, gaps = read_unit("nosuch.service")
    assert not unit.loaded
    assert "does not know" in gaps[0].why


def test_a_unit_whose_main_process_is_no_server_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_systemctl(tmp_path, SHOWN.replace("MainPID=0", f"MainPID={os.getppid()}"), monkeypatch)
    assert in_unit("llama.service") == []


def test_a_router_and_its_child_are_not_guessed_between() -> None:
    from analyzers.contracts.evidence import Incarnation
    from analyzers.errors import UserError

    found = [Server(pid, "/x/llama-server", "/x/llama-server", False, Incarnation(pid=pid)) for pid in (5, 6)]
    assert only(found[:1], "--unit u") == found[0]
    with pytest.raises(UserError, match="one of 5, 6"):
        only(found, "--unit u")
