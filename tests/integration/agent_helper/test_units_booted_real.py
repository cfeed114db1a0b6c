"""Both units under a real systemd: the agent, a user of its own, watches a foreign server by the helper."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "collect"))

from booted import Booted, booted, needs_boot

from collector.lab.reference import ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, prepare
from collector.lab.reference.spec import command, environment

SYSTEM_PYTHON = Path("/usr/bin/python3")
ROOT = Path(__file__).parents[3]
DEPLOY, UNITS = ROOT / "deploy/agent", "etc/systemd/system"
CODE, HOSTED = "opt/bb", "opt/lab/hosted.py"
SITE = sysconfig.get_paths()["purelib"]
DEADLINE = 40.0
same_python = SYSTEM_PYTHON.resolve().name == f"python{sys.version_info[0]}.{sys.version_info[1]}"
pytestmark = [
    pytest.mark.real,
    needs_boot,
    # The test's own interpreter may stand in a home folder, which the agent's unit does not see.
    pytest.mark.skipif(not same_python, reason="needs a system Python of the version of this one"),
]
RUN = "import sys; from analyzers.cli.main import main; sys.exit(main(sys.argv[1:]))"


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.1)


def _start(verb: str) -> str:
    variables = f"Environment=PYTHONPATH=/{CODE}:{SITE}\n"
    return f"[Service]\n{variables}ExecStart=\nExecStart={SYSTEM_PYTHON} -c '{RUN}' {verb}\nWatchdogSec=6\n"


def _server() -> str:
    spec = ServerSpec(cached_model(), python=prepare(STALE_CAPTURE_VERSION), idle_seconds=1, poisoned=True)
    words = [f"/{HOSTED}" if word.endswith("hosted.py") else word for word in command(spec, 18281)]
    told = "".join(
        f"Environment={key}={value}\n" for key, value in environment(spec).items() if " " not in value
    )
    start = " ".join(shlex.quote(word).replace("%", "%%") for word in words)
    return f"[Service]\nUser=nobody\n{told}ExecStart={start}\n"


def _files() -> dict[str, str]:
    files = {f"{UNITS}/{path.name}": path.read_text() for path in DEPLOY.iterdir() if path.suffix != ".conf"}
    agent = f"{UNITS}/llama-blackbox-agent.service.d"
    files[f"{agent}/unprivileged.conf"] = (DEPLOY / "llama-blackbox-agent.unprivileged.conf").read_text()
    files[f"{agent}/test.conf"] = _start("watch")
    files[f"{UNITS}/llama-blackbox-helper.service.d/test.conf"] = _start("watch-helper")
    users = (DEPLOY / "llama-blackbox-agent.sysusers.conf").read_text()
    files["etc/sysusers.d/llama-blackbox.conf"] = users
    files["etc/llama-blackbox/agent.toml"] = '[agent]\nhelper_socket = "/run/llama-blackbox-helper.sock"\n'
    files[f"{UNITS}/lab-served.service"] = _server()
    files[HOSTED] = (ROOT / "collector/lab/reference/hosted.py").read_text()
    for room in ("analyzers", "collector"):
        for path in (ROOT / room).rglob("*"):
            if path.suffix in (".py", ".toml", ".json"):
                files[f"{CODE}/{path.relative_to(ROOT)}"] = path.read_text()
    return files


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    assert shutil.which("systemd-sysusers")
    spec_folders = {prepare(STALE_CAPTURE_VERSION), cached_model()}
    with booted(tmp_path_factory.mktemp("helper") / "boot", _files()) as made:
        made.run("chmod", "a+r", str(cached_model()))  # in the overlay alone
        for place in spec_folders:
            for folder in place.parents:
                made.run("chmod", "a+x", str(folder))
        assert made.run("systemd-sysusers").returncode == 0
        if not _sees(made, f"{SITE}/pydantic/__init__.py"):
            pytest.skip(
                "THE AGENT'S UNITS ARE NOT TRIED: they cannot see the folder that this run's packages are in"
            )
        for name in ("llama-blackbox-helper.socket", "llama-blackbox-agent", "lab-served"):
            done = made.run("systemctl", "start", name)
            assert done.returncode == 0, done.stderr
        yield made


def _sees(system: Booted, path: str) -> bool:
    """Whether a unit like the agent's may read it: a home or /tmp, where clones lie, is hidden from it."""
    like = ["-p", "ProtectHome=yes", "-p", "PrivateTmp=yes", "-p", "User=llama-blackbox"]
    words = ["systemd-run", "--wait", "--quiet", *like, "/usr/bin/test", "-r", path]
    return system.run(*words).returncode == 0


def shown(system: Booted, unit: str, name: str) -> str:
    return system.run("systemctl", "show", "--value", "-p", name, unit).stdout.strip()


def told(system: Booted, event: str) -> list[dict[str, object]]:
    text = system.run("journalctl", "-u", "llama-blackbox-agent", "-o", "cat", "--no-pager").stdout
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def test_the_agent_without_rights_sees_a_foreign_server_and_its_death(system):
    # GIVEN the agent without any capability
    pid = shown(system, "llama-blackbox-agent", "MainPID")
    status = system.run("grep", "-E", "CapEff|Uid", f"/proc/{pid}/status").stdout
    assert "CapEff:\t0000000000000000" in status
    assert "Uid:\t0\t" not in status
    # THEN it knows the server that is another user's
    until(
        lambda: any(each.get("unit") == "lab-served.service" for each in told(system, "server-found")),
        "found",
    )
    # WHEN it reloads, and its helper is started anew
    assert system.run("systemctl", "reload", "llama-blackbox-agent").returncode == 0
    assert system.run("systemctl", "restart", "llama-blackbox-helper").returncode == 0
    until(
        lambda: ", 1 servers" in shown(system, "llama-blackbox-helper", "StatusText"),
        "together again",
    )
    # THEN nothing is told twice or as ended
    assert len(told(system, "server-found")) == 1
    assert told(system, "server-ended") == []
    # WHEN the server is asked while it sleeps, which kills this build
    until(lambda: "1 asleep" in shown(system, "llama-blackbox-agent", "StatusText"), "it sleeps")
    ask = ["-d", '{"messages":[{"role":"user","content":"hi there"}]}']
    system.run("curl", "-sm", "10", *ask, "http://127.0.0.1:18281/v1/chat/completions/input_tokens")
    # THEN its death is an incident
    until(lambda: any(each.get("kind") == "death" for each in told(system, "incident")), "an incident")
    first = next(each for each in told(system, "incident") if each.get("kind") == "death")
    assert "signal" in str(first["message"]) or "SIG" in str(first["message"])


def test_an_agent_that_hangs_is_started_anew_and_a_stop_is_clean(system):
    pid = shown(system, "llama-blackbox-agent", "MainPID")
    system.run("kill", "-STOP", pid)
    until(lambda: shown(system, "llama-blackbox-agent", "NRestarts") == "1", "the watchdog's restart")
    until(lambda: shown(system, "llama-blackbox-agent", "ActiveState") == "active", "ready again")
    assert system.run("systemctl", "stop", "llama-blackbox-agent").returncode == 0
    assert shown(system, "llama-blackbox-agent", "Result") == "success"
