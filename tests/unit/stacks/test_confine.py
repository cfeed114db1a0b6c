from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from analyzers.stacks import confine, jail

MEMORY = 128 << 20


def run(*argv: str, seconds: float = 20.0, output: int = 1 << 16, memory: int = MEMORY) -> confine.Finished:
    return confine.run(list(argv), seconds=seconds, memory_bytes=memory, output_bytes=output)


def test_a_tool_that_ends_gives_its_output_and_status() -> None:
    # GIVEN a tool that writes to both streams and fails
    # WHEN it runs to its end
    done = run("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
    # THEN nothing is lost and nothing was cut off
    assert (done.stdout, done.stderr, done.status, done.cut_off) == (b"out\n", b"err\n", 3, None)
    assert done.peak_memory > 0


def test_endless_output_is_cut_at_the_bound_and_the_tool_killed() -> None:
    done = run("/bin/sh", "-c", "while :; do echo xxxxxxxxxxxxxxxx; done", output=5000)
    assert (done.cut_off, len(done.stdout), done.status) == ("output", 5000, -signal.SIGKILL)


def test_a_tool_that_hangs_is_cut_at_its_time() -> None:
    done = run("/bin/sleep", "600", seconds=0.2)
    assert (done.cut_off, done.status) == ("time", -signal.SIGKILL)


def test_a_tool_that_closes_its_streams_and_hangs_is_cut_too() -> None:
    done = run("/bin/sh", "-c", "exec >&- 2>&-; while :; do :; done", seconds=0.3)
    assert done.cut_off == "time"


def test_complaints_without_end_do_not_stop_the_tool() -> None:
    # GIVEN more on standard error than is kept
    script = "i=0; while [ $i -lt 9000 ]; do echo complaint-complaint >&2; i=$((i+1)); done; echo done"
    done = run("/bin/sh", "-c", script)
    # THEN the tool still reaches its end
    assert (done.stdout, len(done.stderr), done.cut_off) == (b"done\n", confine.STDERR_BYTES, None)


def test_the_environment_is_empty_but_for_three_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", "https://example.invalid")
    monkeypatch.setenv("LLAMA_API_KEY", "secret")
    names = {line.partition(b"=")[0] for line in run("/usr/bin/env").stdout.splitlines()}
    assert names == {b"PATH", b"HOME", b"LC_ALL"}


def test_a_tool_cannot_write_a_file(tmp_path: Path) -> None:
    # GIVEN a folder and a file anybody may write
    tmp_path.chmod(0o777)
    target = tmp_path / "target"
    target.write_text("kept")
    target.chmod(0o666)
    # WHEN a confined tool appends to it
    done = run("/bin/sh", "-c", f"echo more >> {target}")
    # THEN it fails and the file is unchanged
    assert done.status != 0
    assert target.read_text() == "kept"


def test_a_private_file_of_ours_stays_readable(tmp_path: Path) -> None:
    secret = tmp_path / "core"
    secret.write_text("core")
    secret.chmod(0o600)
    assert run("/bin/cat", str(secret)).stdout == b"core"


def test_no_network_unless_the_host_forbids_to_take_it_away() -> None:
    done = run("/bin/cat", "/proc/net/dev")
    names = {line.split(b":")[0].strip() for line in done.stdout.splitlines()[2:]}
    assert names == {b"lo"} or "network" in done.loose


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a user to drop to")
def test_root_is_dropped_to_a_reader_that_cannot_gain_rights_or_children() -> None:
    done = run("/bin/grep", "-E", "^(Uid|CapEff|NoNewPrivs)", "/proc/self/status")
    if not done.loose:
        fields = dict(line.split(b":", 1) for line in done.stdout.splitlines())
        assert fields[b"Uid"].split() == [b"65534"] * 4
        assert int(fields[b"CapEff"], 16) == 1 << jail.CAP_DAC_READ_SEARCH
        assert int(fields[b"NoNewPrivs"]) == 1
        assert b"fork" in run("/bin/sh", "-c", "/bin/true; echo no").stderr


def test_memory_is_bounded() -> None:
    # GIVEN a tool that wants far more private memory than it may have
    done = run("/bin/sh", "-c", "a=aaaaaaaaaaaaaaaa; while :; do a=$a$a; done", memory=32 << 20)
    # THEN it ends by itself before its time
    assert done.cut_off is None
    assert done.status != 0


def test_the_tool_dies_with_us() -> None:
    # GIVEN a process of ours that has a confined tool running
    code = (
        "import sys; from analyzers.stacks import confine\n"
        "child = confine.start(['/bin/sleep', '600'], seconds=600, memory_bytes=1 << 27)\n"
        "print(child.process.pid, flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code]
    parent = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert parent.stdout is not None
    pidfd = os.pidfd_open(int(parent.stdout.readline()))
    # WHEN that process is killed outright
    parent.kill()
    parent.communicate()
    # THEN the tool ends as well
    with selectors.DefaultSelector() as selector:
        selector.register(pidfd, selectors.EVENT_READ)
        assert selector.select(20)
    os.close(pidfd)


def test_a_missing_program_is_an_oserror() -> None:
    with pytest.raises(OSError, match="nothing-here"):
        run("/nothing-here")


def test_relative_path_entries_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a stranger's folder with a program named like the tool, entered by the user
    (tmp_path / "eu-stack").write_text("#!/bin/sh\n")
    (tmp_path / "eu-stack").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".:")
    assert confine.find_tool("eu-stack") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert confine.find_tool("eu-stack") == str(tmp_path / "eu-stack")
