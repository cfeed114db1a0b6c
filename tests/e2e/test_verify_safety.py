"""Whatever ends the verifier: no server is left behind, finished trials are kept, and nobody gets a verdict
from a run that was cut short or from a server that somebody else killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from verify_process import Verifier, alive, descendants, is_server, name_of, trials_in, until, verified
from verify_wheels import FIXED, WHEELS

pytestmark = pytest.mark.real
# D1 on a build without it: every trial is clean, so the run goes on until it is ended.
LONG_RUN = ("pinned", "--version", WHEELS[FIXED], "--defect", "D1", "--trials", "500")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_takes_the_servers_down_and_keeps_what_is_finished(
    tmp_path: Path, number: signal.Signals
) -> None:
    # GIVEN a run with finished trials and a live server
    kept = tmp_path / "kept"
    with Verifier(tmp_path / "run", *LONG_RUN, "--output", str(kept), "--json", "-") as verifier:
        assert until(lambda: bool(trials_in(kept)) or verifier.ended), verifier.err.read_text()
        assert trials_in(kept), verifier.err.read_text()
        server = verifier.a_server()
        # WHEN the signal comes
        os.kill(verifier.process.pid, number)
        status = verifier.end()
    # THEN
    assert status == 130, verifier.err.read_text()
    assert not alive(server)
    run = json.loads(verifier.out.read_text())
    assert run["interrupted"] is True
    assert len(run["trials"]) == len(trials_in(kept)) >= 1
    assert [each["conclusion"] for each in run["findings"]] == ["inconclusive"]
    assert "Traceback" not in verifier.err.read_text()


def test_a_verifier_that_is_killed_takes_its_server_with_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with Verifier(tmp_path / "run", *LONG_RUN, "--output", str(kept)) as verifier:
        assert until(lambda: bool(trials_in(kept)) or verifier.ended), verifier.err.read_text()
        assert trials_in(kept), verifier.err.read_text()
        server = verifier.a_server()
        verifier.process.kill()
        verifier.process.wait()
        assert until(lambda: not alive(server), 30.0)
    assert trials_in(kept)  # every line whole


def held_servers(verifier: Verifier) -> list[int]:
    """Servers that a debugger below the verifier started."""
    debuggers = [pid for pid in descendants(verifier.process.pid) if name_of(pid) == "gdb"]
    return [pid for debugger in debuggers for pid in descendants(debugger) if is_server(pid)]


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_a_verifier_that_is_killed_takes_gdb_and_the_held_server_with_it(tmp_path: Path) -> None:
    arguments = ("directed", "--version", WHEELS[FIXED], "--defect", "D1", "--trials", "50")
    with Verifier(tmp_path / "run", *arguments) as verifier:
        # GIVEN gdb and, below it, the server that it started
        assert until(lambda: bool(held_servers(verifier)) or verifier.ended)
        family = [*held_servers(verifier), *descendants(verifier.process.pid)]
        assert held_servers(verifier), verifier.err.read_text()
        # WHEN the verifier is killed
        verifier.process.kill()
        verifier.process.wait()
        # THEN both are gone
        assert until(lambda: not any(map(alive, family)), 30.0)


def test_a_signal_before_the_first_trial_leaves_nothing(tmp_path: Path) -> None:
    # GIVEN a binary that takes its time to say its version
    slow = tmp_path / "llama-server"
    slow.write_text("#!/bin/sh\necho $$ >pid\nexec sleep 600\n".replace("pid", str(tmp_path / "pid")))
    slow.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    arguments = ("pinned", "--server-bin", str(slow))
    with Verifier(tmp_path / "run", *arguments, variables={"TMPDIR": str(scratch)}) as verifier:
        assert until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text().strip()))
        pid = int((tmp_path / "pid").read_text())
        # WHEN ended
        os.kill(verifier.process.pid, signal.SIGTERM)
        status = verifier.end()
    # THEN neither the binary nor a folder is left
    assert status == 130
    assert until(lambda: not alive(pid), 30.0)
    assert list(scratch.iterdir()) == []


def test_a_server_killed_from_outside_is_no_crash(tmp_path: Path) -> None:
    """As the out-of-memory killer does it: SIGKILL, while the trial is under way."""
    # GIVEN a run of one trial
    kept = tmp_path / "kept"
    arguments = ("pinned", "--version", WHEELS[FIXED], "--defect", "D1", "--trials", "1")
    with Verifier(tmp_path / "run", *arguments, "--output", str(kept), "--json", "-") as verifier:
        # WHEN each of its servers is killed while it is up
        killed: set[int] = set()

        def kill_and_look() -> bool:
            for pid in verifier.servers():
                if pid not in killed and is_up(kept, len(killed)):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            return verifier.process.poll() is not None

        assert until(kill_and_look)
        status = verifier.end()
    # THEN nothing is found, and nothing is called sound
    assert killed
    assert status in (2, 125), verifier.err.read_text()
    assert all(each["outcome"] == "inconclusive" for each in trials_in(kept))


def is_up(kept: Path, index: int) -> bool:
    logs = sorted((kept / "servers").glob("server-*/server.log"))
    return len(logs) > index and b"LISTEN" in logs[index].read_bytes()


def test_json_on_stdout_is_only_json_and_a_found_defect_is_status_1(tmp_path: Path) -> None:
    arguments = ("pinned", "--version", WHEELS["11063"], "--defect", "D1", "--trials", "1", "--json", "-")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    status, out, err = verified(tmp_path / "run", *arguments, variables={"TMPDIR": str(scratch)})
    assert status == 1, err
    run = json.loads(out)
    assert [each["conclusion"] for each in run["findings"]] == ["affected"]
    assert "--output FOLDER to keep them" in err
    assert list(scratch.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_standard_output_is_no_verdict(tmp_path: Path) -> None:
    arguments = ("pinned", "--version", WHEELS["11063"], "--defect", "D1", "--trials", "1")
    junit = tmp_path / "run.xml"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [Path(sys.executable).with_name("llama-blackbox"), "verify", *arguments, "--junit", str(junit)],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            timeout=180,
            check=False,
        )
    assert done.returncode == 2, done.stderr
    assert b"cannot be printed (no space left" in done.stderr
    assert "failure" in junit.read_text()
