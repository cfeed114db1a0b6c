"""`collect` and host selection on real servers: one that died, one that hangs, and what is left alone."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_journal import core_record, ended, make, needs_journal, said

from analyzers.bundle.read import open_bundle
from analyzers.cli.main import main
from analyzers.contracts.report import Report
from collector.gather.cli import look_live
from collector.gather.deaths import Places
from collector.gather.live import Ways
from collector.gather.servers import demand_server
from collector.lab.faults import d1_stale_capture, d3_stranded, slow_work
from collector.lab.faults.provoked import Provoked, Stage
from collector.lab.reference import ReferenceServer, RunningServer, ServerSpec, cached_model
from collector.lab.reference.conditions import asleep
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION, prepare
from collector.sources.procfs import Process

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("eu-stack") is None, reason="eu-stack is not installed"),
]
DEADLINE = 20.0
BETWEEN = 2.0  # seconds between the looks, where no rule needs more
UPLOAD = b'POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"prompt":'


def run(*words: str | Path) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main([str(word) for word in words])
    return status, out.getvalue()


def verdict(*inputs: str | Path) -> Report:
    return Report.from_json(run("triage", *inputs, "--json", "--fast")[1])


def said_by(report: Report) -> tuple[str, str | None, str, str]:
    found = report.verdict
    return found.class_, found.defect, found.phase, found.confidence


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceServer]:
    with ReferenceServer(tmp_path_factory.mktemp("servers")) as reference:
        yield reference


def stage(lab: ReferenceServer, version: str = UNLOAD_VERSION) -> Stage:
    return Stage(lab, ServerSpec(cached_model(), python=prepare(version)))


@pytest.fixture(scope="module")
def dead(lab: ReferenceServer) -> Provoked:
    """A server that D1 ended, with its core."""
    provoked = d1_stale_capture.provoke(stage(lab, STALE_CAPTURE_VERSION))
    assert provoked.happened, provoked.outcome
    if provoked.core.path is None:
        pytest.skip(f"no core: {provoked.core.reason}")
    return provoked


@pytest.fixture(scope="module")
def journal(dead: Provoked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What journald and systemd-coredump would have kept of it."""
    assert dead.ending is not None
    pid, at = dead.server.pid, dead.ending.when_wall
    lines = [said(line.wall, pid, line.text, comm="python3") for line in dead.server.output.lines()]
    record = core_record(at, pid, sys.executable, dead.core.path)
    return make(
        tmp_path_factory.mktemp("host") / "journal", [*lines, record, ended(at + 0.5, "dumped", "11")]
    )


@needs_journal
def test_a_death_by_the_journal_alone_is_what_core_and_log_say(
    dead: Provoked, journal: Path, tmp_path: Path
) -> None:
    # GIVEN what core and log, named by hand, say
    assert dead.core.path is not None
    by_hand = verdict(dead.core.path, dead.log)
    assert said_by(by_hand)[:2] == ("SEGV-UAF-SLEEP", "D1")
    # WHEN nobody names a file
    picked = verdict("--journal", journal, "--unit", "llama")
    # THEN it says the same, and more surely: the stamps of a journal show whose log it is
    assert said_by(picked)[:-1] == said_by(by_hand)[:-1]
    assert (said_by(by_hand)[-1], said_by(picked)[-1]) == ("weak", "strong")
    assert picked.process.pid == dead.server.pid

    # WHEN it is collected: stacks as text, no memory
    target = tmp_path / "death.tar.zst"
    status, told = run("collect", "--journal", journal, "--pid", str(dead.server.pid), "-o", target)
    assert status == 0
    assert str(target) in told
    # THEN a few kilobytes say the same, anywhere
    assert target.stat().st_size < 1 << 20
    carried = verdict(target)
    assert said_by(carried) == said_by(picked)
    assert carried.signature.bug_key == by_hand.signature.bug_key
    with open_bundle(target) as bundle:
        assert not bundle.manifest.memory
        assert not any(file.kind == "core" for file in bundle.files)


@needs_journal
def test_the_core_itself_only_when_asked_for(dead: Provoked, journal: Path, tmp_path: Path) -> None:
    target = tmp_path / "death.tar.zst"
    words = ("collect", "--journal", journal, "--pid", str(dead.server.pid), "-o", target)
    assert run(*words, "--with-core")[0] == 0
    with open_bundle(target) as bundle:
        assert bundle.manifest.memory
        assert any(file.kind == "core" for file in bundle.files)
    report = verdict(target)
    assert said_by(report)[:2] == ("SEGV-UAF-SLEEP", "D1")
    tids = [thread.tid for thread in report.threads]
    assert len(tids) == len(set(tids))
    # AND an existing bundle is not replaced by accident
    before = target.read_bytes()
    assert main([str(word) for word in words]) == 2
    assert target.read_bytes() == before


def test_a_core_in_the_current_folder_is_found(
    dead: Provoked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern != "core" or dead.core.path is None:
        pytest.skip(f"core_pattern is {pattern!r}")
    monkeypatch.chdir(dead.core.path.parent)
    found = verdict("--pid", str(dead.server.pid))
    assert found.process.pid == dead.server.pid
    assert found.verdict.class_.startswith("SEGV")


def watched(server: RunningServer, folder: Path, seconds: float = BETWEEN) -> Report:
    """Two looks, written, and what triage makes of the bundle alone."""
    haul = look_live(Places(), demand_server(server.pid), Ways(seconds=seconds))
    haul.write(folder / "live.tar.zst")
    return verdict(folder / "live.tar.zst")


def test_a_stranded_request_is_proven_by_two_looks(lab: ReferenceServer, tmp_path: Path) -> None:
    # GIVEN a request that a sleeping server holds
    provoked = d3_stranded.provoke(stage(lab))
    assert provoked.happened, provoked.outcome
    server = provoked.server
    # WHEN the command looks
    target = tmp_path / "live.tar.zst"
    status, _ = run("collect", "--live", "--pid", str(server.pid), "--seconds", "2", "-o", target)
    assert status == 0
    report = verdict(target)
    # THEN
    assert said_by(report) == ("HANG-STRANDED", "D3", "asleep", "proven")
    # AND nothing was released: the client waits as before, and the server sleeps
    assert provoked.client is not None
    assert provoked.client.waiting
    assert server.wait_until(asleep, 1.0)
    server.take_down()


def test_twin_a_stalled_upload_to_a_sleeping_server(lab: ReferenceServer, tmp_path: Path) -> None:
    # GIVEN a sleeping server and a client that never ends its request
    server = stage(lab).start(idle_seconds=1)
    assert server.wait_until(asleep, DEADLINE)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(UPLOAD)
        time.sleep(1.2)  # longer than QUIET_MS: what is said of it must not rest on its being fresh
        # WHEN / THEN the snapshot of the first look does not hide the wait from the second
        assert watched(server, tmp_path).verdict.class_ == "NO-FAULT"
    server.take_down()


def test_twin_a_busy_server_is_not_called_hung(lab: ReferenceServer, tmp_path: Path) -> None:
    provoked = slow_work.prefill(stage(lab))
    assert provoked.happened
    assert watched(provoked.server, tmp_path).verdict.class_ == "NOT-A-HANG"
    provoked.server.take_down()


def test_a_living_server_without_live_is_neither_asked_nor_stopped(
    lab: ReferenceServer, tmp_path: Path
) -> None:
    # GIVEN a sleeping server with a key in its environment
    server = stage(lab).start(idle_seconds=1)
    assert server.wait_until(asleep, DEADLINE)
    lines = len(list(server.output.lines()))
    # WHEN
    target = tmp_path / "still.tar.zst"
    assert run("collect", "--pid", str(server.pid), "-o", target)[0] == 0
    # THEN it says how to find out more, and did nothing to it
    with open_bundle(target) as bundle:
        kinds = {item.kind for item in bundle.evidence}
        commands = " ".join(gap.command or "" for gap in bundle.gaps)
    assert not kinds & {"probe", "stack", "action", "socket"}
    assert "collect --live" in commands
    assert len(list(server.output.lines())) == lines
    server.take_down()


def test_python_frames_of_a_hosted_server(lab: ReferenceServer, tmp_path: Path) -> None:
    from collector.gather.pythonstacks import find_tool

    if find_tool() is None:
        pytest.skip("py-spy is not installed")
    server = stage(lab).start()
    haul = look_live(Places(), demand_server(server.pid), Ways(seconds=0.1))
    text = haul.files["context/python-stacks.txt"]
    assert isinstance(text, bytes)
    assert b"thread " in text
    server.take_down()


@pytest.mark.parametrize("verb", [["collect", "--live"], ["collect"], ["triage"]])
def test_a_process_that_is_no_server_is_refused_and_left_alone(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # GIVEN a process that calls itself llama-server and is sleep(1)
    sleep = shutil.which("sleep")
    assert sleep is not None
    with subprocess.Popen(["llama-server", "60"], executable=sleep) as other:
        try:
            target = tmp_path / "x.tar.zst"
            output = ["-o", str(target)] if verb[0] == "collect" else []
            # WHEN / THEN one line and status 2, nothing written, nothing attached
            assert main([*verb, "--pid", str(other.pid), *output]) == 2
            said = capsys.readouterr().err
            assert "not a llama-server" in said
            assert said.count("\n") == 1
            assert not target.exists()
            with Process(other.pid) as process:
                assert process.tracer() == 0
        finally:
            other.kill()


def test_a_live_look_wants_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--live", "-o", str(tmp_path / "x.tar.zst")]) == 2
    assert "give --pid or --unit" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
