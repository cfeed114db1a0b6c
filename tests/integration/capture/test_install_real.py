"""Installed for the real kernel: ours kept, others' as before, everything restored; 100 at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from capture_host import all_kept, crash_together, hosted, prefix, unlimited
from crash_lab import (
    CRASHER,
    LIMIT,
    PATTERN,
    THREADS,
    compiled,
    crash,
    needs_gcc,
    needs_root,
    pattern_set,
    until,
)

from analyzers.cli.main import main
from collector.capture.kept import missed
from collector.capture.kept.missed import keep_missed
from collector.capture.setup import status, undo
from collector.capture.setup.install import Wanted
from collector.capture.setup.safe import unsafe_below

pytestmark = [pytest.mark.real, needs_root, needs_gcc]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    compiled(folder, "llama-server", THREADS)
    compiled(folder, "foreign", CRASHER)
    return folder


def test_by_the_command_line_from_nothing_to_nothing(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with prefix() as host, pattern_set(f"{tmp_path}/core.%p"):
        before = PATTERN.read_text(), LIMIT.read_text()
        place = ["--prefix", str(host.folder)]
        assert main(["capture", "install", *place, "--store", str(host.store), "--no-persist"]) == 0
        assert "set kernel.core_pattern" in capsys.readouterr().out
        assert main(["capture", "status", *place]) == 0
        assert unsafe_below(host.folder) is None
        # WHEN one of ours and one of theirs crash
        crash(built / "llama-server")
        crash(built / "foreign", preexec_fn=unlimited)
        capture = host.one()
        assert until(lambda: len(list(tmp_path.glob("core.*"))) == 1)
        assert capture.stat().st_mode & 0o777 == host.store.stat().st_mode & 0o777 == 0o700
        # THEN it is listed, and removing leaves the capture and nothing else
        assert main(["capture", "list", *place]) == 0
        assert capture.name in capsys.readouterr().out
        assert main(["capture", "install", *place, "--no-persist"]) == 2
        assert main(["capture", "remove", *place]) == 0
        assert (PATTERN.read_text(), LIMIT.read_text()) == before
        assert [path.name for path in host.folder.iterdir()] == ["store"]
        assert main(["capture", "status", *place]) == 1


def test_a_kill_between_two_sysctls_is_mended(built: Path) -> None:
    with prefix() as host, pattern_set(PATTERN.read_text().rstrip("\n")):
        before = PATTERN.read_text(), LIMIT.read_text()
        program = (
            "import os, sys\n"
            "from analyzers.cli.main import main\n"
            "from collector.capture.setup.kernel import Kernel, PATTERN\n"
            "real = Kernel.write\n"
            "def write(self, name, value):\n"
            "    real(self, name, value) if name != PATTERN else os.kill(os.getpid(), 9)\n"
            "Kernel.write = write\n"
            "main(sys.argv[1:])\n"
        )
        words = [
            "capture",
            "install",
            "--prefix",
            str(host.folder),
            "--store",
            str(host.store),
            "--no-persist",
        ]
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False)
        assert done.returncode == -9
        assert LIMIT.read_text() == "16\n"
        assert status.look(host.layout).state == status.HALF_INSTALLED
        undo.apply(undo.removal(host.layout))
        assert (PATTERN.read_text(), LIMIT.read_text()) == before


def _together(built: Path, tmp_path: Path, count: int) -> None:
    with hosted(Wanted(pipe_limit=count + 8)) as host:
        pids = crash_together(built / "llama-server", tmp_path, count)
        assert all_kept(host, pids), host.told()


def test_ten_at_once(built: Path, tmp_path: Path) -> None:
    _together(built, tmp_path, 10)


@pytest.mark.full
def test_a_hundred_at_once(built: Path, tmp_path: Path) -> None:
    _together(built, tmp_path, 100)


def test_over_the_limit_is_evidence(built: Path, tmp_path: Path) -> None:
    # GIVEN a limit of one handler
    with hosted(Wanted(pipe_limit=1)) as host:
        pids = crash_together(built / "llama-server", tmp_path, 10)
        assert until(lambda: not host.partial())
        # THEN each has a capture, or the kernel's own line says why it has none
        kept = {int(path.name.split("-")[1]) for path in host.captures()}
        told = {one.pid: one for one in keep_missed(host.store)}
        assert set(pids) <= kept | set(told)
        assert kept
        assert all(told[pid].why == missed.LIMIT for pid in set(pids) - kept)


def test_a_crash_loop_leaves_each_life_a_capture(built: Path, tmp_path: Path) -> None:
    with hosted(Wanted()) as host:
        pids = [pid for _ in range(12) for pid in crash_together(built / "llama-server", tmp_path, 1)]
        assert all_kept(host, pids), host.told()
