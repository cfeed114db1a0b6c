"""Host selection and `collect` under a real systemd: a unit whose server dies, is restarted, and hangs on."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from booted import Booted, booted, needs_boot

from analyzers.contracts.report import Report
from collector.lab.reference import ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, prepare
from collector.lab.reference.spec import POISON, command

pytestmark = [pytest.mark.real, pytest.mark.full, needs_boot]
COMMAND = str(Path(sys.executable).with_name("llama-blackbox"))
PORT = 18_080
KEY = "sk-of-the-unit-0123456789"
FILED = "hf_OfTheUnitsFile0123456789"  # in its environment file
ARGUED = "sk-of-the-command-line-0123456789"
PROMPT = "quizzical zeppelin marmalade"  # in the request that killed it, so in the core
SECRETS = (KEY, FILED, ARGUED, PROMPT, "zeppelin")
DEADLINE = 60.0
ASK = f"""
import json, sys, urllib.request
body = sys.argv[2].encode() or None
request = urllib.request.Request("http://127.0.0.1:{PORT}" + sys.argv[1], data=body)
try:
    print(urllib.request.urlopen(request, timeout=10).read().decode())
except OSError as error:
    print("none", error)
"""
COUNT = json.dumps({"messages": [{"role": "user", "content": PROMPT}]})


def unit() -> str:
    """A unit as an operator writes one. The plain core_pattern leaves the core in its working folder."""
    spec = ServerSpec(cached_model(), python=prepare(STALE_CAPTURE_VERSION), idle_seconds=1)
    # The script reads its first argument only; the others stand on the command line as a key does.
    words = " ".join(f"'{word}'" for word in (*command(spec, PORT), "--api-key", ARGUED))
    variables = "\n".join(f"Environment={name}={value}" for name, value in POISON.items())
    return f"""[Service]
ExecStart={words}
{variables}
Environment=LLAMA_API_KEY={KEY}
EnvironmentFile=/etc/llama.env
WorkingDirectory=/srv
LimitCORE=infinity
Restart=on-failure
RestartSec=200ms
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    """A host whose unit died of D1 once and runs again."""
    if Path("/proc/sys/kernel/core_pattern").read_text().strip() != "core":
        pytest.skip("core_pattern is not a plain relative path")
    files = {"etc/systemd/system/llama.service": unit(), "etc/llama.env": f"HF_TOKEN={FILED}\n"}
    with booted(tmp_path_factory.mktemp("system"), files) as host:
        assert host.run("systemctl", "start", "llama").returncode == 0
        until(host, lambda: '"is_sleeping":true' in asked(host, "/props").replace(" ", ""))
        first = main_pid(host)
        asked(host, "/v1/chat/completions/input_tokens", COUNT)
        until(host, lambda: main_pid(host) not in (0, first))
        until(host, lambda: '"is_sleeping":true' in asked(host, "/props").replace(" ", ""))
        yield host


def until(host: Booted, condition: object) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        assert callable(condition)
        if condition():
            return
        time.sleep(0.1)
    pytest.fail(host.run("journalctl", "--no-pager", "-u", "llama", "-n", "30").stdout)


def asked(host: Booted, path: str, body: str = "") -> str:
    return host.run(sys.executable, "-c", ASK, path, body).stdout


def main_pid(host: Booted) -> int:
    return int(host.run("systemctl", "show", "llama", "-P", "MainPID").stdout or 0)


def report(host: Booted, *words: str) -> Report:
    ran = host.run(COMMAND, "triage", *words, "--json", "--fast")
    assert ran.stdout, ran.stderr
    return Report.from_json(ran.stdout)


def planted(host: Booted, bundle: str) -> list[str]:
    """Which of the secrets stand in any file of the bundle."""
    host.run("rm", "-rf", "/tmp/open")
    host.run("mkdir", "/tmp/open")
    assert host.run("tar", "--zstd", "-C", "/tmp/open", "-xf", bundle).returncode == 0
    assert host.run("find", "/tmp/open", "-type", "f").stdout.count("\n") > 5
    return [word for word in SECRETS if host.run("grep", "-rqa", word, "/tmp/open").returncode == 0]


@pytest.mark.parametrize(
    "words", [("--unit", "llama"), ("--since", "1h", "--unit", "llama"), ("--boot", "0", "--unit", "llama")]
)
def test_the_units_death_is_found_and_proven(system: Booted, words: tuple[str, ...]) -> None:
    found = report(system, *words)
    assert (found.verdict.class_, found.verdict.defect) == ("SEGV-UAF-SLEEP", "D1")
    assert found.process.pid not in (None, main_pid(system))


def test_collect_carries_it_away_without_the_key(system: Booted) -> None:
    ran = system.run(COMMAND, "collect", "--unit", "llama", "-o", "/srv/death.tar.zst")
    assert ran.returncode == 0, ran.stderr
    found = report(system, "/srv/death.tar.zst")
    assert (found.verdict.class_, found.verdict.defect) == ("SEGV-UAF-SLEEP", "D1")
    # AND what was planted in the unit, its file, the command line and the request is in none of its files,
    # though the core holds it all
    for word in (KEY, FILED, ARGUED, PROMPT):
        assert system.run("grep", "-rqa", word, "/srv").returncode == 0
    assert planted(system, "/srv/death.tar.zst") == []
    unit_text = system.run("cat", "/tmp/open/context/unit.txt").stdout
    assert "NRestarts=1" in unit_text
    assert "LimitCORE=infinity" in unit_text


def test_the_restarted_server_is_looked_at_by_its_units_name(system: Booted) -> None:
    ran = system.run(
        COMMAND, "collect", "--live", "--unit", "llama", "--seconds", "2", "-o", "/srv/live.tar.zst"
    )
    assert ran.returncode == 0, ran.stderr
    found = report(system, "/srv/live.tar.zst")
    assert planted(system, "/srv/live.tar.zst") == []
    assert found.verdict.class_ == "NO-FAULT"
    assert found.process.pid == main_pid(system)


def test_from_the_host_a_servers_own_network_is_entered(system: Booted, tmp_path: Path) -> None:
    # GIVEN the same server, seen from outside its namespaces
    from collector.gather.cli import look_live
    from collector.gather.deaths import Places
    from collector.gather.live import Ways
    from collector.gather.servers import servers

    inside = [one for one in servers() if b"llama.service" in Path(f"/proc/{one.pid}/cgroup").read_bytes()]
    assert len(inside) == 1
    # WHEN
    haul = look_live(Places(), inside[0], Ways(seconds=0.5, stacks=False))
    # THEN its probes were answered in there
    props = [item for item in haul.evidence if item.kind == "probe" and item.data["route"] == "/props"]
    assert [item.data.get("is_sleeping") for item in props] == [True, True]
