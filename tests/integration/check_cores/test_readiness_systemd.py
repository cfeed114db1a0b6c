"""`check --cores --unit` inside of a real systemd: the unit's limits, its time-outs and its journal."""

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

from collector.lab.reference import ServerSpec, cached_model
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.spec import command

# Its namespace has a /tmp of its own: a clone that stands in /tmp is not seen from inside.
pytestmark = [pytest.mark.real, pytest.mark.full, needs_boot]
COMMAND = str(Path(sys.executable).with_name("llama-blackbox"))
PORT = 18_081
DEADLINE = 60.0


def unit() -> str:
    spec = ServerSpec(cached_model(), python=prepare(UNLOAD_VERSION))
    words = " ".join(f"'{word}'" for word in command(spec, PORT))
    return f"""[Service]
ExecStart={words}
WorkingDirectory=/srv
LimitCORE=0
CoredumpFilter=private-anonymous
ReadOnlyPaths=/srv
WatchdogSec=20s
TimeoutAbortSec=1ms
LogLevelMax=err
Restart=on-failure
RestartSec=7s
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    files = {
        "etc/systemd/system/llama.service": unit(),
        "etc/systemd/journald.conf.d/zz.conf": "[Journal]\nStorage=volatile\nRateLimitIntervalSec=30s\n",
    }
    with booted(tmp_path_factory.mktemp("boot"), files) as made:
        made.run("systemctl", "start", "llama.service")
        yield made


def checked(system: Booted) -> dict[str, Any]:
    """The one server of the unit, as soon as it is one."""
    until = time.monotonic() + DEADLINE
    while True:
        ran = system.run(COMMAND, "check", "--cores", "--unit", "llama.service", "--json")
        if ran.returncode == 1:
            found: dict[str, Any] = json.loads(ran.stdout)["servers"][0]
            return found
        assert time.monotonic() < until, ran.stderr
        time.sleep(0.2)


def test_every_setting_of_the_unit_is_named_with_its_file(system: Booted) -> None:
    # GIVEN / WHEN
    said = checked(system)

    # THEN
    findings = {one["id"]: one for one in said["findings"]}
    assert said["unit"] == "llama.service"
    assert said["verdict"] == "blind"
    override = "/etc/systemd/system/llama.service.d/override.conf"
    assert findings["core-limit"]["level"] == "lost"
    assert findings["core-limit"]["change"] == f"[Service] LimitCORE=infinity in {override}"
    assert findings["filter-headers"]["level"] == "risk"
    assert "CoredumpFilter" in findings["filter-headers"]["change"]
    assert findings["journal-level"]["present"] == "LogLevelMax=3"
    assert "Storage=volatile (/etc/systemd/journald.conf.d/zz.conf)" in findings["journal"]["present"]
    assert "7 s of RestartSec" in findings["restart"]["what"]
    assert findings["abort-timeout"]["change"].endswith(override)
    if Path("/proc/sys/kernel/core_pattern").read_text().strip() == "core":
        assert findings["folder-read-only"]["level"] == "lost"


def test_once_they_are_set_as_it_says_it_says_so_no_more(system: Booted) -> None:
    # GIVEN what the findings name, in the file they name
    override = system.root / "etc/systemd/system/llama.service.d/override.conf"
    override.parent.mkdir(parents=True, exist_ok=True)
    lines = ["LimitCORE=infinity", "CoredumpFilter=default", "TimeoutAbortSec=90s", "LogLevelMax=info"]
    override.write_text("[Service]\n" + "\n".join(lines) + "\n")
    system.run("systemctl", "daemon-reload")
    # WHEN
    system.run("systemctl", "restart", "llama.service")
    left = {one["id"] for one in checked(system)["findings"]}
    # THEN
    assert left.isdisjoint({"core-limit", "filter-headers", "abort-timeout", "journal-level"})
