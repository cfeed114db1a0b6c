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
