"""What a strict look at the gathering found: stops, full disks, foreign bytes and words in commands."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from analyzers.contracts.report import Process
from analyzers.errors import UserError
from collector.gather import tools
from collector.gather.cli import _room
from collector.gather.haul import Haul, spelled
from collector.gather.journal import Journal
from collector.gather.logs import bounded
from collector.gather.slim import slim_or_gap
from collector.gather.tools import quoted, read_piped, run

HOSTILE = "a b; touch PWNED $(id) `id`\n\x1b[31m'\""
DEADLINE = 30.0


def gone(pid: int) -> bool:
    """Waits for the end of a process; False when it outlives the deadline."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_stop_ends_the_tool_and_what_it_started(tmp_path: Path) -> None:
    """GIVEN a tool with a child of its own WHEN Ctrl-C comes THEN neither is left behind."""
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pids)!r} + '.new', 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(pids)!r} + '.new', {str(pids)!r})\n"
        "time.sleep(600)"
    )
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        until = time.monotonic() + DEADLINE
        while not pids.exists() and time.monotonic() < until:
            time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run([sys.executable, "-c", code], seconds=DEADLINE * 2)
    assert all(gone(int(pid)) for pid in pids.read_text().split())


def test_a_host_without_room_for_complaints_still_runs_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert run([sys.executable, "-c", "print(1)"]).out == b"1\n"


def test_a_host_without_room_for_a_folder_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/no/such/folder")
    with pytest.raises(UserError, match="no temporary folder can be made"), _room():
        pass


def test_a_word_with_a_nul_is_a_tool_that_is_missing() -> None:
    assert run(["journalctl", "_SYSTEMD_UNIT=a\0b"]).outcome == "missing"


@pytest.mark.parametrize("text", [HOSTILE, "-rf /", "x\u202ey", "$HOME"])
def test_a_path_in_a_command_is_one_harmless_word(text: str) -> None:
    (word,) = shlex.split(quoted(text))
    assert word.isprintable()
    assert "\n" not in quoted(text)


def test_commands_in_gaps_hold_foreign_names_as_words(tmp_path: Path) -> None:
    # GIVEN a core whose name is a command of its own, and a journal that cannot be read
    core = tmp_path / "core; touch PWNED"
    core.write_bytes(b"\x7fELF")
    _, (gap,) = slim_or_gap(core, None)
    assert shlex.split(gap.command or "")[-1] == str(core)
    missing = Journal(tmp_path).slice(["_SYSTEMD_UNIT=a\\x2db;id.service"])
    for told in missing.gaps:
        assert "_SYSTEMD_UNIT=a\\x2db;id.service" in shlex.split(told.command or "") or told.what == "journal"
        assert ";id" not in (told.command or "").replace("'_SYSTEMD_UNIT=a\\x2db;id.service'", "")


def test_a_path_that_is_no_utf8_is_in_the_bundle_spelled(tmp_path: Path) -> None:
    # GIVEN a program below a folder whose name is no UTF-8, as the kernel gives its path
    exe = os.fsdecode(b"/srv/we\xffird/llama-server")
    haul = Haul(process=Process(pid=7, exe=exe))
    haul.gap(f"the log of {exe}", "it is gone")
    # WHEN a bundle is written THEN no byte of it stops the writing
    manifest = haul.write(tmp_path / "bundle")
    assert manifest.process is not None
    assert manifest.process.exe == "/srv/we\\xffird/llama-server"
    assert spelled("plain ü") == "plain ü"


def test_a_log_that_the_kernel_makes_up_is_not_waited_for() -> None:
    assert not bounded(Path("/proc/kmsg"))
    assert bounded(Path("/dev/zero")) is None


def test_a_key_may_come_through_a_pipe(tmp_path: Path) -> None:
    """GIVEN a named pipe, as `<(pass show key)` makes one, whose writer takes its time."""
    pipe = tmp_path / "key"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"sleep 0.3; echo sk-key > {shlex.quote(str(pipe))}"]):
        assert read_piped(pipe, 100, DEADLINE) == b"sk-key\n"


def test_a_pipe_without_a_writer_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tools, "OPENED_SECONDS", 0.2)
    os.mkfifo(tmp_path / "key")
    assert not read_piped(tmp_path / "key", 100, 0.5)
    (tmp_path / "plain").write_text("sk-key")
    assert read_piped(tmp_path / "plain", 100) == b"sk-key"


def test_a_folder_in_a_files_place_is_nothing_to_read(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert tools.read_text(tmp_path) is None
    assert read_piped(tmp_path, 100) is None
    assert bounded(tmp_path) is None
    assert len(os.listdir("/proc/self/fd")) == before
