"""The agent's units as systemd itself reads them: sound, and exposed no more than was promised."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[3] / "deploy/agent"
AGENT, HELPER = "llama-blackbox-agent.service", "llama-blackbox-helper.service"
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The units installed in a root of their own, the unprivileged agent's drop-in with them."""
    folder = tmp_path / "etc/systemd/system"
    folder.mkdir(parents=True)
    for path in (*UNITS.glob("*.service"), *UNITS.glob("*.socket")):
        shutil.copy(path, folder)
    more = folder / f"{AGENT}.d"
    more.mkdir()
    shutil.copy(UNITS / "llama-blackbox-agent.unprivileged.conf", more / "unprivileged.conf")
    return tmp_path


@needs_systemd
@pytest.mark.parametrize(("unit", "most"), [(AGENT, 1.6), (HELPER, 2.3)])
def test_the_exposure_is_what_was_promised(root, unit, most):
    words = ["systemd-analyze", "security", "--offline=true", f"--root={root}", unit]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= most, done.stdout


@needs_systemd
@pytest.mark.parametrize("unit", [AGENT, HELPER, "llama-blackbox-helper.socket"])
def test_systemd_finds_nothing_to_say_of_them(root, unit):
    place = str(root / "etc/systemd/system" / unit)
    words = ["systemd-analyze", "verify", "--man=no", place]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    own = [line for line in done.stderr.splitlines() if "llama-blackbox" in line]
    assert (done.returncode, own) == (0, [])
