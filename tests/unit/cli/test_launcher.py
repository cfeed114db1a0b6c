"""A foreign package of the same name is refused with one line (decision 0001)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import llama_blackbox_launcher as launcher

START = "import llama_blackbox_launcher as l; l.entry()"


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", START, "--version"],
        capture_output=True,
        text=True,
        env=env,
        cwd="/",
        check=False,
    )


@pytest.mark.parametrize("name", launcher.NAMES)
def test_a_foreign_package_is_refused_and_never_imported(tmp_path: Path, name: str) -> None:
    # GIVEN a foreign package of the same name first on the path, that would leave a mark when imported
    (tmp_path / name).mkdir()
    mark = tmp_path / "imported"
    (tmp_path / name / "__init__.py").write_text(f"open({str(mark)!r}, 'w')\n")
    # WHEN the command starts
    done = run(tmp_path)
    # THEN one line names the place, and nothing of it ran
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / name) in done.stderr
    assert not mark.exists()


def test_our_own_packages_are_accepted(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    assert launcher.foreign() is None


LEAVE = """
import atexit, os, threading
import llama_blackbox_launcher as launcher
class Late:
    def __del__(self): os.write(1, b"torn down\\n")
late = Late()
atexit.register(lambda: print("cleaned"))
print("verdict")
{more}
launcher._leave(3)
"""
THREAD = """
main = threading.main_thread()
threading.Thread(target=lambda: (main.join(), print("worked"))).start()
"""


def leave(more: str = "", stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(launcher.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", LEAVE.format(more=more)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        check=False,
    )


def test_the_end_flushes_and_cleans_up_without_taking_the_interpreter_apart() -> None:
    done = leave()
    assert (done.returncode, done.stdout, done.stderr) == (3, "verdict\ncleaned\n", "")


def test_a_thread_that_still_works_is_waited_for() -> None:
    done = leave(THREAD)
    assert done.returncode == 3
    assert "worked\n" in done.stdout
    assert "cleaned\n" in done.stdout


def test_output_that_cannot_be_written_is_not_passed_over() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = leave(stdout=full.fileno())
    assert done.returncode not in (0, 3)
    assert "No space left" in done.stderr
