"""What a dying process's user can arrange must neither hold the handler nor borrow its rights."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.capture.crash import handling, kmsg, limits, passon
from collector.capture.crash.proc import Process
from collector.capture.crash.request import LETTERS, Crash

NOBODY = 65534
WAIT = [sys.executable, "-c", "input()"]


def crash_of(pid: int) -> Crash:
    return Crash({**dict.fromkeys(LETTERS, ""), "P": str(pid), "p": str(pid), "c": "1000000", "d": "1"})


def in_child(work: Callable[[], object]) -> str:
    """What ``work`` gives, or the name of what it raises, in a process of its own."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as problem:  # noqa: BLE001
            said = type(problem).__name__
        os.write(into, said.encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def test_looking_at_the_program_is_ended_when_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []

    def look(process: Process, names: tuple[str, ...]) -> None:
        left.append(signal.getitimer(signal.ITIMER_REAL)[0])

    monkeypatch.setattr(handling, "server_mark", look)
    monkeypatch.setattr(handling, "pass_on", lambda *_: signal.getitimer(signal.ITIMER_REAL)[0])
    # WHEN a foreign crash is looked at, the alarm runs meanwhile, and not in the program that follows
    assert handling.dispose(crash_of(os.getpid()), "/nowhere") == 0
    assert 0 < left[0] <= limits.DECIDE_HANG_SECONDS


def test_a_fault_while_looking_leaves_no_alarm_to_the_next_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(handling, "server_mark", fail)
    monkeypatch.setattr(handling, "pass_on", lambda *_: signal.getitimer(signal.ITIMER_REAL)[0])
    assert handling.dispose(crash_of(os.getpid()), "/nowhere") == 0


def test_a_stalled_file_system_ends_the_passing_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # GIVEN a core that never comes, as from memory on a file system that does not answer
    monkeypatch.setattr(limits, "STALL_SECONDS", 0.05)
    silent, kept = os.pipe()
    os.write(kept, b"piece")
    monkeypatch.setattr(passon, "_fill", lambda view: os.readv(0, [view]))
    child = os.fork()
    if child == 0:
        os.dup2(silent, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        passon._drain(os.open(tmp_path / "core", os.O_CREAT | os.O_WRONLY, 0o600), 1 << 20)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGALRM
    os.close(silent)
    os.close(kept)


def test_a_line_for_the_kernel_goes_to_a_device_only(tmp_path: Path) -> None:
    # GIVEN a container whose /dev/kmsg is a pipe that nobody reads, one that somebody reads, or a file
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    file.write_bytes(b"untouched")
    kmsg.tell("x", str(pipe))  # comes back
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    kmsg.tell("x", str(pipe))
    kmsg.tell("x", str(file))
    assert os.read(reader, 100) == b""
    assert file.read_bytes() == b"untouched"
    os.close(reader)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="root and setpriv are needed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [([], "0o100600"), (["setpriv", "--bounding-set=-all"], "PermissionError")],
    ids=["root", "container"],
)
def test_a_core_is_created_with_the_rights_of_its_process(
    tmp_path: Path, words: list[str], expected: str
) -> None:
    # GIVEN a process of root in a folder of another user; in a container root may not write there
    folder = tmp_path / "others"
    folder.mkdir(mode=0o755)
    os.chown(folder, NOBODY, NOBODY)
    process = subprocess.Popen([*words, *WAIT], cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        caps = "CapEff:\t0000000000000000" if words else "CapEff:"
        while caps not in Path(f"/proc/{process.pid}/status").read_text():  # until setpriv has done its work
            assert process.poll() is None
        # WHEN the handler creates its core file
        crash = crash_of(process.pid)
        held = Process(process.pid)
        said = in_child(lambda: oct(os.fstat(passon._create(crash, "core", held)).st_mode))
    finally:
        process.kill()
        process.communicate()
    # THEN it can do what the process can
    assert said == expected
