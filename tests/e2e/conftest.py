"""One lab for the session: its servers are always taken down, its cores (100 MB each) always removed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # whatever the import mode: the helpers stand beside us

from e2e_scenes import SCENES
from e2e_stage import SAID, Plays

from collector.lab.reference import ReferenceServer


@pytest.fixture(scope="session")
def plays() -> Iterator[Plays]:
    """Call it with a scene's name: the scene is played when it is first asked for."""
    folder = Path(tempfile.mkdtemp(prefix="llama-blackbox-e2e-"))
    try:
        with ReferenceServer(folder / "servers") as lab:
            yield Plays(lab, folder, SCENES)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A skipped or missed scene, and how often each fault was hit, are said aloud."""
    for line in SAID:
        terminalreporter.write_line(f"e2e: {line}")
