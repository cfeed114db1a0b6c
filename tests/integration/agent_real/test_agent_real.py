"""The agent beside a real systemd: what it reports is what was provoked, nothing missed, doubled or invented.

The agent runs on this host and sees the servers' processes; their units, their manager and their journal are
those of a system booted in a namespace. Its probes are off: other tests' servers are none of its business.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "collect"))

from booted import Booted, booted, needs_boot

from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox_read import open_reading
from analyzers.errors import UserError
from collector.lab.native.build import find_build
from collector.lab.native.recipe import Recipe
from collector.lab.reference import ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, prepare
from collector.lab.reference.spec import command, environment

pytestmark = [pytest.mark.real, needs_boot]

UNITS = "etc/systemd/system"
HOSTED = "opt/lab/hosted.py"  # this repository may lie where the booted system has a folder of its own
DEADLINE = 90.0
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Watched:
    """The booted system, and the outbox of the agent that watches it."""

    system: Booted
    outbox: Path

    def incidents(self) -> list[IncidentRecord]:
        try:
            with open_reading(self.outbox) as reader:
                rows = reader.incidents()
        except UserError:
            return []
        found = [row.record for row in rows if row.record is not None]
        return [record for record in found if (record.server.unit or "").startswith("lab-")]

    def states(self, unit: str) -> list[str]:
        """The states of the unit's servers that live, as the outbox has them."""
        try:
            with open_reading(self.outbox) as reader:
                rows = reader.servers()
        except UserError:
            return []
        return [row.state for row in rows if json.loads(row.about).get("unit") == unit]

    def of(self, unit: str) -> list[IncidentRecord]:
        return [record for record in self.incidents() if record.server.unit == unit]


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.1)


def unit(spec: ServerSpec, port: int, *more: str) -> str:
    words = [f"/{HOSTED}" if word.endswith("hosted.py") else word for word in command(spec, port)]
    variables = [
        f"Environment={name}={value}" for name, value in environment(spec).items() if " " not in value
    ]
    start = " ".join(shlex.quote(word).replace("%", "%%") for word in words)
    service = [*variables, f"ExecStart={start}", "Restart=on-failure", "RestartSec=1", *more]
    limits = ["StartLimitIntervalSec=60", "StartLimitBurst=3"]
    return "\n".join(["[Unit]", *limits, "[Service]", *service, ""])


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    stale = ServerSpec(cached_model(), python=prepare(STALE_CAPTURE_VERSION), idle_seconds=1, poisoned=True)
    native = find_build(Recipe(11368))
    files = {
        HOSTED: (ROOT / "collector/lab/reference/hosted.py").read_text(),
        f"{UNITS}/lab-stale.service": unit(stale, 18181),
        f"{UNITS}/lab-planned.service": unit(replace(stale, idle_seconds=-1), 18182),
        f"{UNITS}/lab-aborted.service": unit(replace(stale, idle_seconds=-1), 18183),
        f"{UNITS}/lab-killed.service": unit(replace(stale, idle_seconds=-1), 18184),
        f"{UNITS}/lab-watchdog.service": unit(stale, 18185, "WatchdogSec=3", "Restart=no"),
    }
    if native is not None:
        spec = ServerSpec(Path("/nowhere.gguf"), binary=native.binary, environment=native.environment)
        files[f"{UNITS}/lab-loop.service"] = unit(spec, 18186)
    folder = tmp_path_factory.mktemp("agent")
    with booted(folder / "boot", files) as system:
        settings = folder / "agent.toml"
        settings.write_text(
            f'[probes]\nenabled = false\n[sources]\njournal_folders = ["{system.root}/var/log/journal"]\n'
        )
        words = ["-m", "tests.integration.agent_real.agent", str(settings), str(folder / "outbox")]
        with (folder / "agent.log").open("wb") as log:
            agent = subprocess.Popen([sys.executable, *words], cwd=ROOT, stderr=log, stdout=log)
            try:
                yield Watched(system, folder / "outbox")
            finally:
                agent.terminate()
                assert agent.wait(60) == 0, (folder / "agent.log").read_text()[-2000:]


def started(watched: Watched, *units: str) -> None:
    for name in units:
        done = watched.system.run("systemctl", "start", name)
        assert done.returncode == 0, done.stderr
    for name in units:
        until(lambda name=name: bool(watched.states(name)), f"{name} is watched")  # type: ignore[misc]


def dead(watched: Watched, name: str, number: int = 1) -> list[IncidentRecord]:
    """The deaths of a unit, once there are ``number`` of them and they have been judged."""

    def judged() -> bool:
        found = [record for record in watched.of(name) if record.kind == "death"]
        return len(found) >= number and all(record.verdict is not None for record in found)

    until(judged, f"{number} deaths of {name} are judged")
    return [record for record in watched.of(name) if record.kind == "death"]


def test_what_was_provoked_is_what_is_reported(watched: Watched) -> None:
    names = ["lab-stale", "lab-planned", "lab-aborted", "lab-killed", "lab-watchdog"]
    started(watched, *(f"{name}.service" for name in names))
    run = watched.system.run
    # WHEN one is asked while it sleeps, one is restarted on purpose, others are ended in their ways
    until(lambda: "asleep" in watched.states("lab-stale.service"), "the stale one sleeps")
    count = ["-d", '{"messages":[{"role":"user","content":"hi there"}]}']
    run("curl", "-sm", "10", *count, "http://127.0.0.1:18181/v1/chat/completions/input_tokens")
    assert run("systemctl", "restart", "lab-planned").returncode == 0
    assert run("systemctl", "kill", "-s", "ABRT", "lab-aborted").returncode == 0
    assert run("systemctl", "kill", "-s", "KILL", "lab-killed").returncode == 0
    # THEN each death is one incident, named for what it was
    (stale,) = dead(watched, "lab-stale.service")
    assert stale.verdict is not None
    assert stale.verdict.class_ in ("SEGV-UAF-SLEEP", "ABRT-ABORT")
    (aborted,) = dead(watched, "lab-aborted.service")
    assert aborted.verdict is not None
    assert aborted.verdict.class_ == "ABRT-ABORT"
    (killed,) = dead(watched, "lab-killed.service")
    assert killed.verdict is not None
    assert killed.verdict.class_ == "KILLED"
    (watchdog,) = dead(watched, "lab-watchdog.service")
    assert watchdog.verdict is not None
    assert watchdog.verdict.class_ == "KILLED-BY-SUPERVISOR"
    # and those that their manager started again say so
    for record in (stale, aborted, killed):
        until(lambda record=record: _restarted(watched, record), "the restart is known")  # type: ignore[misc]
    # and the planned restart is none
    until(lambda: bool(watched.states("lab-planned.service")), "the restarted one is watched")
    assert watched.of("lab-planned.service") == []
    kinds = Counter(record.kind for record in watched.incidents() if record.server.unit != "lab-loop.service")
    assert kinds == {"death": 4}


def _restarted(watched: Watched, record: IncidentRecord) -> bool:
    now = next(each for each in watched.incidents() if each.id == record.id)
    return now.restart is not None and now.restart.reason == "supervisor"


def test_a_server_that_never_comes_up_is_a_loop_that_its_manager_gives_up(watched: Watched) -> None:
    if find_build(Recipe(11368)) is None:
        pytest.skip("no native build is cached: see docs/reference-builds.md")
    # WHEN it lives for some twenty milliseconds, three times
    watched.system.run("systemctl", "start", "lab-loop")
    deaths = dead(watched, "lab-loop.service", 3)
    # THEN every life was seen
    assert len(deaths) == 3
    assert {record.verdict.class_ for record in deaths if record.verdict} == {"START-FAIL"}
    until(lambda: any(each.kind == "crash-loop" for each in watched.of("lab-loop.service")), "the loop")

    def given_up() -> bool:
        loops = [each for each in watched.of("lab-loop.service") if each.kind == "crash-loop"]
        return len(loops) == 1 and loops[0].restart is not None and loops[0].restart.limit_hit

    until(given_up, "the manager's giving up is known")
