"""deploy/capture's units under a real systemd: installed, a server dies in its unit, captured, removed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "collect"))
from booted import Booted, booted, needs_boot
from crash_lab import LIMIT, PATTERN, needs_root, pattern_set
from test_socket_real import knows_sockets

from collector.lab.reference import ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, prepare
from collector.lab.reference.spec import POISON, command

# Its namespace has a /tmp of its own: a clone that stands in /tmp is not seen from inside.
pytestmark = [pytest.mark.real, pytest.mark.full, needs_root, needs_boot]
DEPLOY = Path(__file__).parents[3] / "deploy" / "capture"
COMMAND = str(Path(sys.executable).with_name("llama-blackbox"))
DUMPABLE = Path("/proc/sys/fs/suid_dumpable")
PREFIX = Path("/usr/local/lib/llama-blackbox")
RUN = Path("/run/llama-blackbox")  # the kernel looks for the socket in this host's root
STORE = "/var/lib/llama-blackbox/captures"
PORT = 18_082
DEADLINE = 60.0
UNITS = ("llama-blackbox-capture.service", "llama-blackbox-capture-tidy.service")
ASK = f"""
import sys, urllib.request
body = sys.argv[2].encode() or None
try:
    answer = urllib.request.urlopen("http://127.0.0.1:{PORT}" + sys.argv[1], data=body, timeout=10)
    print(answer.read().decode())
except OSError as error:
    print("none", error)
"""
COUNT = json.dumps({"messages": [{"role": "user", "content": "hello"}]})


def unit() -> str:
    spec = ServerSpec(cached_model(), python=prepare(STALE_CAPTURE_VERSION), idle_seconds=1)
    words = " ".join(f"'{word}'" for word in command(spec, PORT))
    variables = "\n".join(f"Environment={name}={value}" for name, value in POISON.items())
    return f"[Service]\nExecStart={words}\n{variables}\nWorkingDirectory=/srv\nLimitCORE=0\n"


@pytest.fixture
def settings() -> Iterator[tuple[bytes, ...]]:
    """The kernel's settings, which come back whatever happens."""
    with pattern_set(PATTERN.read_text().rstrip("\n"), int(LIMIT.read_text())):
        yield tuple(path.read_bytes() for path in (PATTERN, LIMIT, DUMPABLE))


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Booted]:
    if not knows_sockets():
        pytest.skip("the kernel has no coredump socket")
    for place in (RUN, PREFIX):
        if place.exists():
            pytest.skip(f"{place} is somebody's")
    RUN.mkdir(mode=0o755)
    files = {f"etc/systemd/system/{name}": (DEPLOY / name).read_text() for name in UNITS}
    files["etc/systemd/system/llama.service"] = unit()
    files["usr/local/bin/llama-blackbox"] = f'#!/bin/sh\nexec {COMMAND} "$@"\n'
    try:
        # The kernel takes a socket's pattern from its first mount namespace only; the code is seen in both.
        words = [COMMAND, "capture", "install", "--shape", "socket", "--no-persist"]
        subprocess.run(words, check=True, capture_output=True)
        with booted(tmp_path / "boot", files, f"--bind={RUN}") as made:
            assert made.run("chmod", "755", "/usr/local/bin/llama-blackbox").returncode == 0
            yield made
    finally:
        subprocess.run([COMMAND, "capture", "remove", "--force"], check=False, capture_output=True)
        shutil.rmtree(RUN, ignore_errors=True)


def until(host: Booted, condition: Callable[[], bool], name: str = "llama") -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(host.run("journalctl", "--no-pager", "-u", name, "-n", "30").stdout)
        time.sleep(0.1)


def asked(host: Booted, path: str, body: str = "") -> str:
    return host.run(sys.executable, "-c", ASK, path, body).stdout


def test_installed_crashed_captured_tidied_removed(settings: tuple[bytes, ...], system: Booted) -> None:
    # GIVEN the installation as an administrator makes it, and the server of its unit
    assert PATTERN.read_text().startswith("@@/run/llama-blackbox/")
    assert system.run("systemctl", "start", "llama-blackbox-capture").returncode == 0
    until(system, (RUN / "coredump.sock").exists, "llama-blackbox-capture")
    shown = system.run("llama-blackbox", "capture", "status")
    assert shown.returncode == 0, shown.stdout
    assert "nothing captured yet" in shown.stdout
    # WHEN a real server dies of D1 in a unit of its own
    assert system.run("systemctl", "start", "llama").returncode == 0
    until(system, lambda: '"is_sleeping":true' in asked(system, "/props").replace(" ", ""))
    pid = int(system.run("systemctl", "show", "llama", "-P", "MainPID").stdout)
    asked(system, "/v1/chat/completions/input_tokens", COUNT)
    until(system, lambda: f"-{pid}-" in system.run("ls", STORE).stdout, "llama-blackbox-capture")
    # THEN it is captured, by the unit's own hardened runs as well
    assert system.run("systemctl", "start", "llama-blackbox-capture-tidy").returncode == 0
    listed = json.loads(system.run("llama-blackbox", "capture", "list", "--json").stdout)["captures"]
    [one] = [row for row in listed if row["pid"] == pid]
    assert (one["signal"], one["state"]) == (11, "kept")
    told = json.loads(system.run("cat", f"{STORE}/{one['id']}/capture.json").stdout)
    assert told["core"]["threads"] > 5
    assert [gap for gap in told["gaps"] if gap["part"] == "confinement"] == []
    assert "llama.service" in system.run("cat", f"{STORE}/{one['id']}/cgroup").stdout
    ran = system.run("llama-blackbox", "capture", "bundle", one["id"], "-o", "/srv/death.tar.zst")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(
        system.run("llama-blackbox", "triage", "/srv/death.tar.zst", "--json", "--fast").stdout
    )
    assert (report["verdict"]["class"], report["verdict"]["defect"]) == ("SEGV-UAF-SLEEP", "D1")
    # AND removing restores every setting byte for byte, and leaves the capture
    removed = subprocess.run([COMMAND, "capture", "remove"], check=False, capture_output=True, text=True)
    assert removed.returncode == 0, removed.stderr
    assert tuple(path.read_bytes() for path in (PATTERN, LIMIT, DUMPABLE)) == settings
    assert system.run("systemctl", "stop", "llama-blackbox-capture").returncode == 0
    assert one["id"] in system.run("ls", STORE).stdout
    assert not PREFIX.exists()
