"""systemctl, docker and kubectl about an end; what runs again has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analyzers.contracts.facts import ExitFact, SettingsFact, fact_of
from analyzers.errors import UserError
from analyzers.triage.material import Material, numbering
from analyzers.triage.readers.looks import text_kind
from analyzers.triage.readers.special import special_material

STATUS = """× llama.service - a server
     Loaded: loaded (/etc/systemd/system/llama.service; enabled)
     Active: failed (Result: {result}) since Wed 2026-12-02 04:55:55 UTC; 3min ago
    Process: 4242 ExecStart=/usr/bin/llama-server -m m.gguf (code={code}, status={status})
   Main PID: 4242 (code={code}, status={status})
        CPU: 1min

Dec 02 04:55:50 host llama-server[4242]: 2.00.004.097 I que    start_loop: entering sleeping state
"""


def read(tmp_path: Path, text: str, kind: str) -> Material:
    path = tmp_path / "given"
    path.write_text(text)
    assert text_kind(text.encode()) == kind
    return special_material(path, "given", kind, numbering())


def ends(material: Material) -> list[ExitFact]:
    return [fact for item in material.evidence if (fact := fact_of(item, ExitFact)) is not None]


@pytest.mark.parametrize(
    ("result", "code", "status", "signal", "exit_code", "told"),
    [
        ("core-dump", "dumped", "11/SEGV", 11, None, "core-dump"),
        ("core-dump", "dumped", "SEGV", 11, None, "core-dump"),
        ("oom-kill", "killed", "KILL", 9, None, "oom-kill"),
        ("signal", "killed", "9/KILL", 9, None, "signal"),
        ("exit-code", "exited", "1/FAILURE", None, 1, "exit-code"),
        ("watchdog", "dumped", "ABRT", 6, None, "watchdog"),
    ],
)
def test_a_status_tells_how_the_main_process_ended(
    tmp_path: Path, result: str, code: str, status: str, signal: int | None, exit_code: int | None, told: str
) -> None:
    found = read(tmp_path, STATUS.format(result=result, code=code, status=status), "unit-state")
    (fact,) = ends(found)
    assert (fact.signal, fact.code, fact.result, fact.unit) == (signal, exit_code, told, "llama.service")
    end = next(item for item in found.evidence if item.kind == ExitFact.KIND)
    assert (end.incarnation.pid, end.wall, end.trust.value) == (4242, 1796187355.0, "supervisor-set")


def test_the_log_below_a_status_is_read_by_its_line_numbers(tmp_path: Path) -> None:
    found = read(tmp_path, STATUS.format(result="core-dump", code="dumped", status="11/SEGV"), "unit-state")
    assert [item.source for item in found.evidence if item.kind == "log"] == ["given:8"]


def test_a_unit_that_runs_again_has_no_end(tmp_path: Path) -> None:
    text = """● llama.service - a server
     Active: active (running) since Wed 2026-12-02 04:55:55 UTC; 3min ago
    Process: 17 ExecStartPre=/bin/true (code=exited, status=0/SUCCESS)
   Main PID: 4300 (llama-server)
"""
    found = read(tmp_path, text, "unit-state")
    assert ends(found) == []
    assert "running" in found.gaps[0].why


def test_show_tells_the_end_and_its_clocks(tmp_path: Path) -> None:
    text = (
        "Id=llama.service\nResult=oom-kill\nExecMainPID=4242\nExecMainCode=2\nExecMainStatus=9\n"
        "ActiveState=failed\nExecMainExitTimestamp=Wed 2026-12-02 04:55:55 UTC\n"
        "ExecMainExitTimestampMonotonic=123456789\n"
    )
    found = read(tmp_path, text, "unit-state")
    (fact,) = ends(found)
    assert (fact.signal, fact.oom, fact.result) == (9, True, "oom-kill")
    assert (found.evidence[0].mono, found.evidence[0].wall) == (123.456789, 1796187355.0)


def test_show_of_a_running_unit_has_no_end(tmp_path: Path) -> None:
    text = (
        "Id=a.service\nResult=success\nExecMainPID=7\nExecMainCode=0\nExecMainStatus=0\nActiveState=active\n"
    )
    assert ends(read(tmp_path, text, "unit-state")) == []


def inspect(**state: Any) -> str:
    base = {"Status": "exited", "Running": False, "OOMKilled": False, "ExitCode": 139, "Error": ""}
    base |= {"FinishedAt": "2026-12-02T04:55:55.5Z"}
    args = ["-m", "m", "--api-key", "sk-secret", "--sleep-idle-seconds", "60"]
    return json.dumps([{"Name": "/llama", "Args": args, "State": {**base, **state}}], indent=4)


@pytest.mark.parametrize(
    ("state", "signal", "code", "oom"),
    [
        ({}, 11, None, False),
        ({"ExitCode": 137, "OOMKilled": True}, 9, None, True),
        ({"ExitCode": 137}, 9, None, False),
        ({"ExitCode": 1, "OOMKilled": True}, None, 1, False),
        ({"ExitCode": 134}, 6, None, False),
    ],
)
def test_inspect_tells_the_exit(
    tmp_path: Path, state: dict[str, Any], signal: int | None, code: int | None, oom: bool
) -> None:
    found = read(tmp_path, inspect(**state), "container-state")
    (fact,) = ends(found)
    assert (fact.signal, fact.code, fact.oom, fact.unit) == (signal, code, oom, "llama")
    idle = [fact_of(item, SettingsFact) for item in found.evidence if item.kind == SettingsFact.KIND]
    assert [fact.sleep_idle_seconds for fact in idle if fact] == [60]
    assert "sk-secret" not in repr(found)


@pytest.mark.parametrize("state", [{"Running": True, "Status": "running", "ExitCode": 0}, {"ExitCode": "x"}])
def test_a_container_that_runs_or_says_no_code_has_no_end(tmp_path: Path, state: dict[str, Any]) -> None:
    found = read(tmp_path, inspect(**state), "container-state")
    assert ends(found) == []
    assert found.gaps[0].what == "an end in given"


def test_a_pod_tells_the_last_state(tmp_path: Path) -> None:
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-12-02T04:55:55Z"}
    status = {
        "name": "server",
        "restartCount": 3,
        "state": {"running": {}},
        "lastState": {"terminated": ended},
    }
    pod = {"kind": "List", "items": [{"kind": "Pod", "status": {"containerStatuses": [status]}}]}
    (fact,) = ends(read(tmp_path, json.dumps(pod, indent=1), "container-state"))
    assert (fact.signal, fact.oom, fact.unit) == (9, True, "server")


def test_cut_json_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cut or damaged"):
        read(tmp_path, inspect()[:-10], "container-state")
