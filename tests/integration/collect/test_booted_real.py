"""The booted system leaves nothing behind, also where the run that booted it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from booted import booted, needs_boot

pytestmark = [pytest.mark.real, pytest.mark.full, needs_boot]
DEADLINE = 30.0
BOOT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from booted import booted
with booted(Path(sys.argv[2]), {}) as system:
    print(system.leader, flush=True)
    time.sleep(600)
"""


def mounted(folder: Path) -> bool:
    return str(folder) in Path("/proc/self/mountinfo").read_text()


def gone(pid: int) -> bool:
    until = time.monotonic() + DEADLINE
    while Path(f"/proc/{pid}/root/etc").exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_its_mounts_are_nobody_elses_and_end_with_it(tmp_path: Path) -> None:
    with booted(tmp_path / "boot", {"etc/of-the-test": "here"}) as system:
        assert system.run("cat", "/etc/of-the-test").stdout == "here"
        assert not mounted(tmp_path)
        (system.root / "etc/later").write_text("as well")
        assert system.run("cat", "/etc/later").stdout == "as well"
    assert gone(system.leader)
    assert not list((tmp_path / "boot/merged").iterdir())


def test_a_killed_run_leaves_no_mount_and_no_system(tmp_path: Path) -> None:
    words = [sys.executable, "-c", BOOT, str(Path(__file__).parent), str(tmp_path / "boot")]
    run = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert run.stdout is not None
    line = run.stdout.readline()
    if not line:
        pytest.skip("no systemd came up here")
    leader = int(line)
    # WHEN the run is killed outright
    run.send_signal(signal.SIGKILL)
    run.wait()
    # THEN the system is gone with it, and so are its mounts
    assert gone(leader)
    assert not mounted(tmp_path)
    assert not list((tmp_path / "boot/merged").iterdir())
