"""The kernel's coredump socket: ours kept, others' passed on, many at once, and nothing without a server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from capture_host import Host, all_kept, crash_together, hosted, served, unlimited
from crash_lab import (
    CRASHER,
    PATTERN,
    THREADS,
    compiled,
    crash,
    manifest,
    needs_gcc,
    needs_root,
    table,
    until,
)

from analyzers.core.notes import read_core
from analyzers.errors import UserError
from collector.capture.kept.adopt import adopt, held_folders
from collector.capture.setup import status
from collector.capture.setup.install import Wanted
from collector.capture.setup.kernel import SOCKET, Kernel
from collector.capture.setup.status import listens


def knows_sockets() -> bool:
    try:
        return Kernel().socket_pattern("/run/s").startswith("@@")
    except UserError:
        return False


pytestmark = [
    pytest.mark.real,
    needs_root,
    needs_gcc,
    pytest.mark.skipif(not knows_sockets(), reason="the kernel has no coredump socket"),
]
HELPER = """#!/bin/sh
printf '%s\\n' "$@" > OUT.tmp; tr '\\0' '\\n' < /proc/self/environ > OUT.env; cat > OUT.core; mv OUT.tmp OUT
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    compiled(folder, "llama-server", THREADS)
    compiled(folder, "foreign", CRASHER)
    return folder


@contextmanager
def listening(
    previous: str = "core", mode: str = "minimal"
) -> Iterator[tuple[Host, subprocess.Popen[bytes]]]:
    path = Path(f"/run/lbs{os.getpid()}.sock")
    with (
        hosted(Wanted(shape=SOCKET, mode=mode, socket=str(path)), previous) as host,
        served(host, path) as server,
    ):
        assert status.look(host.layout).fine
        yield host, server


@pytest.mark.parametrize("mode", ["minimal", "full"])
def test_ours_is_kept_as_by_the_pipe(built: Path, tmp_path: Path, mode: str) -> None:
    with listening(mode=mode) as (host, _):
        [pid] = crash_together(built / "llama-server", tmp_path, 1)
        capture = host.one()
        told = manifest(capture)
        assert (told["process"]["pid"], told["crash"]["signal"]) == (pid, 11)
        assert told["gaps"] == []
        rows = table(capture, "threads.json")
        assert len(rows) == told["core"]["threads"] == 21
        assert [row["tid"] for row in rows if row["dumping"]] == [told["crash"]["tid"]]
        assert read_core(capture / "core").signal == 11
        if mode == "full":
            assert told["full_core"]["whole"]


def test_a_foreign_core_goes_where_it_went(built: Path, tmp_path: Path) -> None:
    with listening(f"{tmp_path}/core.%e.%p.%s.%u") as (host, _):
        [pid] = crash_together(built / "foreign", tmp_path, 1)
        expected = tmp_path / f"core.foreign.{pid}.11.0"
        assert until(expected.exists), list(tmp_path.iterdir())
        assert until(lambda: not read_core(expected).cut)
        assert not host.store.exists()


def test_a_foreign_crash_reaches_the_previous_program(built: Path, tmp_path: Path) -> None:
    helper, out = tmp_path / "helper", tmp_path / "out"
    helper.write_text(HELPER.replace("OUT", str(out)))
    helper.chmod(0o755)
    with listening(f"|{helper} %P %s %c %e %E"):
        [pid] = crash_together(built / "foreign", tmp_path, 1)
        assert until(out.exists)
    words = out.read_text().split("\n")
    assert words[:2] == [str(pid), "11"]
    assert words[3:5] == ["foreign", str(built / "foreign").replace("/", "!")]
    assert read_core(Path(f"{out}.core")).pid == pid
    assert {line.partition("=")[0] for line in Path(f"{out}.env").read_text().split()} <= {"PATH"}


def test_a_user_without_a_core_limit_gets_none(built: Path, tmp_path: Path) -> None:
    with listening(f"{tmp_path}/core.%p") as (_, server):
        words = ["sh", "-c", f"ulimit -c 0; exec {built / 'foreign'}"]
        subprocess.run(words, cwd=tmp_path, check=False, capture_output=True)
        crash_together(built / "foreign", tmp_path, 1)
        assert until(lambda: len(list(tmp_path.glob("core.*"))) == 1)
        assert server.poll() is None


def _together(built: Path, tmp_path: Path, count: int) -> None:
    with listening() as (host, server):
        pids = crash_together(built / "llama-server", tmp_path, count)
        assert all_kept(host, pids), host.told()
        # THEN one process did it, and none is left behind
        assert until(lambda: not Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())


def test_ten_at_once(built: Path, tmp_path: Path) -> None:
    _together(built, tmp_path, 10)


@pytest.mark.full
def test_a_hundred_at_once(built: Path, tmp_path: Path) -> None:
    _together(built, tmp_path, 100)


def test_without_a_server_there_is_no_core_and_status_says_so(built: Path, tmp_path: Path) -> None:
    path = f"/run/lbs{os.getpid()}.sock"
    with hosted(Wanted(shape=SOCKET, socket=path)) as host:
        crash(built / "llama-server", cwd=tmp_path, preexec_fn=unlimited)
        assert list(tmp_path.iterdir()) == []
        faults = status.look(host.layout).faults
        assert any("writes no core of any program" in fault and "start it" in fault for fault in faults)


def test_told_to_stop_it_finishes_what_it_has(built: Path, tmp_path: Path) -> None:
    with listening() as (host, server):
        running = [subprocess.Popen([built / "llama-server"], cwd=tmp_path) for _ in range(10)]
        assert until(lambda: bool(host.partial() or host.captures()))
        server.send_signal(signal.SIGTERM)
        for process in running:
            process.wait()
        assert server.wait(60) == 0
        assert host.captures()
        assert not host.partial()
        assert not listens(f"/run/lbs{os.getpid()}.sock")


def test_whoever_connects_without_dying_is_sent_away(built: Path, tmp_path: Path) -> None:
    with listening() as (host, server):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/run/lbs{os.getpid()}.sock")
            client.settimeout(20)
            assert client.recv(16) == b""
        pids = crash_together(built / "llama-server", tmp_path, 1)
        assert all_kept(host, pids)
        assert server.poll() is None


def test_a_killed_server_leaves_traces_that_are_adopted_and_a_new_one_goes_on(
    built: Path, tmp_path: Path
) -> None:
    path = Path(f"/run/lbs{os.getpid()}.sock")
    with hosted(Wanted(shape=SOCKET, socket=str(path))) as host:
        with served(host, path) as server:
            running = [subprocess.Popen([built / "llama-server"], cwd=tmp_path) for _ in range(6)]
            assert until(lambda: bool(host.partial()))
            server.kill()
            for process in running:
                process.wait()
        with served(host, path):
            pids = crash_together(built / "llama-server", tmp_path, 1)
            assert until(lambda: any(f"-{pids[0]}-" in each.name for each in host.captures()))
        assert until(lambda: not [each for each in host.partial() if _open(each)])
        list(adopt(host.store, now=time.time() + 60))
        assert not host.partial()
        assert all((each / "capture.json").is_file() for each in host.captures())
    assert PATTERN.read_text().strip() != f"@@{path}"


def _open(folder: Path) -> bool:
    looked = folder.stat()
    return (looked.st_dev, looked.st_ino) in held_folders()
