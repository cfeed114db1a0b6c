"""`check --cores` on real servers: its words held against what the kernel then does."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.check.model import AT_RISK, BLIND, CORE, Level, Readiness
from collector.check.readiness import assess, read_scene
from collector.check.subject import read_subject
from collector.gather.servers import Server, demand_server
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec

pytestmark = pytest.mark.real

COMMAND = str(Path(sys.executable).with_name("llama-blackbox"))
DEADLINE = 30.0
NEAR = 0.15  # the heap moves a little between the look and the death


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with ReferenceServer(tmp_path) as lab:
        yield lab.start(ServerSpec(cached_model(), python=prepare(UNLOAD_VERSION)))


def look(pid: int) -> Readiness:
    return assess(read_scene(demand_server(pid)))


def plain_pattern() -> bool:
    return Path("/proc/sys/kernel/core_pattern").read_text().strip() == "core"


def test_the_core_is_as_large_as_was_said(server: RunningServer) -> None:
    if not plain_pattern():
        pytest.skip("core_pattern is not a plain file here")
    # GIVEN
    resource.prlimit(server.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    said = look(server.pid)
    folder = Path(os.readlink(f"/proc/{server.pid}/cwd"))
    assert said.expected is not None
    assert said.verdict != BLIND

    # WHEN
    os.kill(server.pid, signal.SIGSEGV)
    assert server.wait_until(lambda one: one.ending is not None, DEADLINE)
    if not plain_pattern():
        pytest.skip("core_pattern was changed meanwhile")

    # THEN
    cores = list(folder.glob("core*"))
    assert cores
    found = cores[0].stat()
    assert abs(found.st_size - said.expected.size) < NEAR * found.st_size
    assert abs(found.st_blocks * 512 - said.expected.written) < NEAR * found.st_blocks * 512


@pytest.mark.parametrize(("limit", "verdict"), [(0, BLIND), (1 << 20, AT_RISK)])
def test_the_limit_of_the_living_process(server: RunningServer, limit: int, verdict: str) -> None:
    if not plain_pattern():
        pytest.skip("core_pattern is not a plain file here")
    resource.prlimit(server.pid, resource.RLIMIT_CORE, (limit, resource.RLIM_INFINITY))
    made = look(server.pid)
    assert made.verdict == verdict
    assert "core-limit" in {one.id for one in made.findings}


def test_a_filter_without_private_memory_is_blind(server: RunningServer) -> None:
    Path(f"/proc/{server.pid}/coredump_filter").write_text("0x30\n")
    finding = next(one for one in look(server.pid).findings if one.id == "filter-private")
    assert (finding.about, finding.level) == (CORE, Level.LOST)


def test_nothing_of_the_server_changes(server: RunningServer) -> None:
    def state() -> list[bytes]:
        names = ("limits", "coredump_filter", "cgroup", "cmdline", "oom_score_adj")
        return [Path(f"/proc/{server.pid}/{name}").read_bytes() for name in names]

    before = state()
    for words in (["--cores"], []):
        subprocess.run([COMMAND, "check", *words, "--pid", str(server.pid)], capture_output=True, check=False)
    assert state() == before
    assert server.get("/health").status == 200


def test_the_command_says_it_in_words_and_in_json(server: RunningServer) -> None:
    # GIVEN
    resource.prlimit(server.pid, resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))
    words = ["check", "--cores", "--pid", str(server.pid)]
    environment = {**os.environ, "COLUMNS": "50", "NO_COLOR": "1"}

    # WHEN
    shown = subprocess.run([COMMAND, *words], capture_output=True, text=True, env=environment, check=False)
    document = subprocess.run([COMMAND, *words, "--json"], capture_output=True, text=True, check=False)
    exposure = subprocess.run(
        [COMMAND, "check", "--pid", str(server.pid), "--json"], capture_output=True, text=True, check=False
    )

    # THEN
    assert shown.returncode == document.returncode == exposure.returncode == 1
    assert all(len(line) <= 50 for line in shown.stdout.splitlines())
    assert json.loads(document.stdout)["servers"][0]["verdict"] in (BLIND, AT_RISK)
    said = json.loads(exposure.stdout)["servers"][0]
    assert "b11549 by its build-id" in said["build"]
    standing = {one["defect"]: (one["standing"], one["build"]) for one in said["defects"]}
    assert standing["D1"] == ("clear", "fixed")
    assert standing["D2"] == ("possible", "affected")


def test_a_process_that_hides_is_not_dumpable(tmp_path: Path) -> None:
    # GIVEN a process that asked for it; PR_SET_DUMPABLE is 4
    script = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('ready', flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    try:
        from collector.sources.procfs import Process

        with Process(process.pid) as held:
            server = Server(process.pid, "/x", "/x", False, held.incarnation())
        # WHEN
        made = read_subject(server)
    finally:
        process.communicate(b"\n")
    # THEN the kernel says so from 6.16 on; before, root cannot tell
    assert made.dumpable in ("no", None)
    if tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= (6, 16):
        assert made.dumpable == "no"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_an_ordinary_user_is_told_what_was_not_seen(server: RunningServer) -> None:
    # GIVEN
    read, write = os.pipe()
    other = os.fork()
    if other == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        from collector.gather.servers import servers

        try:
            demand_server(server.pid)
            said = "seen"
        except UserError as refused:
            said = str(refused)
        os.write(write, f"{said}|{server.pid in [one.pid for one in servers()]}".encode())
        os._exit(0)
    os.close(write)
    os.waitpid(other, 0)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    # THEN
    assert "sudo" in said
    assert said.endswith("|False")


def test_a_server_that_ends_meanwhile_is_left_out(server: RunningServer) -> None:
    from collector.check.readiness import check_cores

    found = demand_server(server.pid)
    server.kill()
    # Dead; whoever started it may still keep its number.
    assert check_cores([found]) == []
