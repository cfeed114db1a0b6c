"""A "regular" file that the kernel makes up as it is read is refused before a byte of it is taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analyzers.core.files import opened_regular
from analyzers.errors import UserError
from analyzers.triage.sniff import look

# Of each kind one: the kernel's log (reading takes its lines away, and waits), a process's words, a counter.
MADE = ("/proc/kmsg", "/proc/self/environ", "/proc/self/maps", "/proc/meminfo", "/proc/1/cmdline")
DEADLINE = 30.0  # seconds; reading kmsg would take for ever


@pytest.mark.parametrize("name", MADE)
def test_a_file_of_the_kernel_is_refused_in_one_line(name: str) -> None:
    if not os.access(name, os.R_OK):
        pytest.skip("not readable here")
    with pytest.raises(UserError, match="made by the kernel while it is read") as refused:
        look(Path(name))
    assert "\n" not in str(refused.value)
    assert "dmesg > kernel.txt" in refused.value.remedy


def test_an_empty_file_of_a_disk_is_still_just_empty(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    with opened_regular(empty):
        pass
    with pytest.raises(UserError, match="the file is empty"):
        look(empty)


@pytest.mark.parametrize("given", ["input", "link", "exe", "fifo"])
def test_triage_ends_at_once(given: str, tmp_path: Path) -> None:
    """GIVEN something that blocks its reader, as an input, by a link, as the program, or as a named pipe."""
    log = tmp_path / "log"
    log.write_text("0.00.000.439 I srv          init: initializing ...\n")
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to("/proc/kmsg")
    os.mkfifo(fifo)
    words = {
        "input": ["/proc/kmsg"],
        "link": [str(link)],
        "exe": [str(log), "--exe", "/proc/kmsg"],
        "fifo": [str(fifo)],
    }
    entry = "import sys; from analyzers.cli.main import main; sys.exit(main(sys.argv[1:]))"

    ran = subprocess.run(
        [sys.executable, "-c", entry, "triage", "--fast", *words[given]],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )

    assert ran.returncode == 2
    assert len(ran.stderr.strip().splitlines()) == 1
    assert "Traceback" not in ran.stderr
