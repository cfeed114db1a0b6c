"""What `check` says of a restart, held against what a real systemd then does with a crash."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "collect"))
from booted import Booted, booted, needs_boot

pytestmark = [pytest.mark.real, pytest.mark.full, needs_boot]
COMMAND = str(Path(sys.executable).with_name("llama-blackbox"))
DEADLINE = 60.0
UNITS = {
    "comes-back": "Restart=on-failure\nRestartSec=200ms",
    "never": "Restart=no",
    "held": "Restart=on-failure\nRestartSec=200ms\nRestartPreventExitStatus=SEGV",
    "clean": "Restart=on-failure\nRestartSec=200ms\nSuccessExitStatus=SIGSEGV",
    "other": "Restart=on-success\nRestartSec=200ms",
}


def unit(name: str, lines: str) -> str:
    """A bash that calls itself a server: all that systemd and the check look at is there."""
    program = f"/run/{name}/llama-server"
    return f"""[Service]
RuntimeDirectory={name}
ExecStartPre=/bin/cp /bin/bash {program}
ExecStart={program} -c "sleep 1000 & wait" -m /m.gguf
LimitCORE=0
{lines}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    files = {f"etc/systemd/system/{name}.service": unit(name, lines) for name, lines in UNITS.items()}
    with booted(tmp_path_factory.mktemp("boot"), files) as made:
        yield made


def said(system: Booted, name: str) -> dict[str, Any]:
    ran = system.run(COMMAND, "check", "--unit", f"{name}.service", "--json")
    (server,) = json.loads(ran.stdout)["servers"]
    return server  # type: ignore[no-any-return]


def state(system: Booted, name: str) -> tuple[str, str]:
    """(active, failed or inactive; main PID)."""
    words = ("systemctl", "show", "-p", "ActiveState", "-p", "MainPID", f"{name}.service")
    rows = dict(line.partition("=")[::2] for line in system.run(*words).stdout.splitlines())
    return rows["ActiveState"], rows["MainPID"]


def settled(system: Booted, name: str, before: str) -> bool:
    """Whether it runs again, once that is decided."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        active, pid = state(system, name)
        if active in ("failed", "inactive"):
            return False
        if active == "active" and pid not in ("0", before):
            return True
        time.sleep(0.05)
    raise AssertionError("neither up nor down")


@pytest.mark.parametrize("name", UNITS)
def test_a_crash_is_followed_by_what_was_said(system: Booted, name: str) -> None:
    # GIVEN
    system.run("systemctl", "start", f"{name}.service")
    pid = state(system, name)[1]
    # WHEN
    server = said(system, name)
    system.run("systemctl", "kill", "--kill-who=main", "--signal=SEGV", f"{name}.service")
    # THEN
    assert server["unit"] == f"{name}.service"
    assert server["restart"]["by"] == "systemd"
    assert server["restart"]["fires"] == ("yes" if settled(system, name, pid) else "no")
