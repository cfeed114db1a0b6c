"""One user's crashes fill neither the store nor its file system, and leave nothing strange behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.capture.coresocket import who
from collector.capture.crash import limits, passon, store
from collector.capture.crash.dropping import keep_only, program
from collector.capture.crash.handling import held
from collector.capture.crash.proc import Process, pid_of
from collector.capture.crash.request import LETTERS, Crash, expand, file_name, parse
from collector.capture.crash.store import RefusedError, mark_of, open_store, reclaim

NUMBERS = "4000,12,3,4003,11,1796195973,1,3,0,1000,1001,5"


def filled(folder: Path, uid: int, count: int, size: int = 0) -> None:
    for number in range(count):
        capture = folder / f"20261202T072000Z-{uid}{number}-1{mark_of(uid)}"
        capture.mkdir(parents=True)
        if size:
            (capture / "core").write_bytes(b"x" * size)


def test_a_users_share_is_refused_to_that_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STORED_OF_USER", 3)
    tmp_path.chmod(0o700)
    filled(tmp_path, 1000, 3)
    filled(tmp_path, 11000, 2)  # whose mark ends alike
    with pytest.raises(RefusedError, match="user 1000 has its share, 3 captures"):
        open_store(str(tmp_path), 0, 1000)
    for other in (11000, 0, None):
        os.close(open_store(str(tmp_path), 0, other))


def test_a_users_share_of_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    filled(tmp_path, 1000, 2, 1 << 20)
    room = os.statvfs(tmp_path)
    parts = room.f_blocks * room.f_frsize // (1 << 20)  # a share of one mebibyte
    monkeypatch.setattr(limits, "USER_PART", parts)
    with pytest.raises(RefusedError, match="user 1000 has its share of the file system"):
        open_store(str(tmp_path), 0, 1000)
    os.close(open_store(str(tmp_path), 0, 1001))


def test_what_a_reader_leaves_is_taken_over_and_links_are_not(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    folder = tmp_path / "partial"
    folder.mkdir()
    (folder / "core").write_text("mine")
    (folder / "core").chmod(0o4777)
    descriptor = os.open(folder, os.O_RDONLY)
    reclaim(descriptor)
    assert (folder / "core").stat().st_mode & 0o7777 == 0o600
    for plant in ("link", "hard", "pipe"):
        path = folder / plant
        {"link": path.symlink_to, "hard": path.hardlink_to, "pipe": lambda _, path=path: os.mkfifo(path)}[
            plant
        ](victim)
        with pytest.raises(OSError, match="no plain file"):
            reclaim(descriptor)
        assert not path.is_symlink()
        assert not path.exists()
    os.close(descriptor)
    assert victim.read_text() == "untouched"
    assert victim.stat().st_mode & 0o777 != 0o600


def test_only_named_descriptors_are_kept() -> None:
    code = (
        "import os\n"
        "from collector.capture.crash.dropping import keep_only\n"
        "fds = [os.open('/dev/null', 0) for _ in range(4)]\n"
        "keep_only(0, fds[2])\n"
        "print(*(fd for fd in [0, *fds] if os.path.exists(f'/proc/self/fd/{fd}')), fds[2])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    first, second, expected = ran.stdout.split()
    assert (first, second) == ("0", expected)
    assert keep_only.__doc__


def test_the_filter_refuses_what_it_does_not_name() -> None:
    rows = [program((0, 1))[at : at + 8] for at in range(0, len(program((0, 1))), 8)]
    # THEN each call jumps to the last row, which allows; the row before it refuses
    calls = rows[4:6]
    assert [4 + number + 1 + row[2] for number, row in enumerate(calls)] == [len(rows) - 1] * 2
    assert rows[-1][4:] == (0x7FFF0000).to_bytes(4, "little")
    assert rows[-2][4:] == (0x00050001).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("..", "!."), (".", "!"), ("", "!"), ("../../etc/x", "..!..!etc!x"), ("llama-server", "llama-server")],
)
def test_no_name_of_a_process_leads_out_of_a_folder(name: str, shown: str) -> None:
    assert file_name(name) == shown


def test_a_program_whose_name_ends_in_an_exclamation_mark_and_dots() -> None:
    crash = parse([NUMBERS, "host", "..", "!opt!x!.."])
    assert (expand("/c/%f", crash), expand("/c/%e", crash)) == ("/c/!.", "/c/!.")
    # AND where the process can be asked, it says the name itself
    process = Process(os.getpid())
    passon._name(crash, process)
    assert crash.values["f"] == os.path.basename(os.readlink("/proc/self/exe"))
    os.close(process.folder)


def test_a_thread_s_name_off_the_socket_is_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(os.getpid())
    comm = Path(f"/proc/self/task/{os.getpid()}/comm")
    before = comm.read_text()
    comm.write_text("../../evil")
    try:
        crash = who.crash_of(process, 1, 11)
    finally:
        comm.write_text(before)
        os.close(process.folder)
    assert expand("/var/cores/%e", crash) == "/var/cores/..!..!evil"


def test_a_number_that_is_another_process_s_by_now_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # GIVEN a pidfd whose process was reaped, and its number on a living process
    child = subprocess.Popen(["/bin/true"])
    pidfd = os.pidfd_open(child.pid)
    assert pid_of(pidfd) == child.pid
    child.wait()
    assert pid_of(pidfd) == -1
    assert pid_of(1 << 20) is None
    crash = Crash({**dict.fromkeys(LETTERS, ""), "P": str(os.getpid()), "F": "3"})
    monkeypatch.setattr("collector.capture.crash.handling.pid_of", lambda number: pid_of(pidfd))
    with pytest.raises(ProcessLookupError):
        held(crash)
    os.close(pidfd)


def test_a_process_that_is_gone_gets_no_file_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    crash = Crash({**dict.fromkeys(LETTERS, ""), "P": str(os.getpid()), "c": "100000", "p": "1", "d": "1"})
    assert passon.pass_on(crash, "core", None) == 1


def test_everything_is_written_and_synced_by_one_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(store.os, "fsync", synced.append)
    real = os.write
    monkeypatch.setattr(store.os, "write", lambda fd, data: real(fd, data[:3]))  # a few bytes at a time
    descriptor = os.open(tmp_path / "x", os.O_CREAT | os.O_WRONLY)
    store.put(descriptor, b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"
    assert synced == [descriptor]
