"""The crash path runs without site packages, and loads little before the process may go."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import collector.capture.crash as package

FOLDER = Path(package.__file__).parent
# Each costs the dying process's owner 3 to 11 ms (measured with python3 -ISB).
SLOW = {"json", "re", "typing", "dataclasses", "enum", "socket", "signal", "subprocess", "inspect", "ctypes"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports do not survive the copy"
            yield node.module or ""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_only_the_standard_library_and_itself(path: Path) -> None:
    for name in imported(path):
        own = name.startswith("collector.capture.crash")
        assert own or name.partition(".")[0] in sys.stdlib_module_names, name


def test_what_is_loaded_before_the_process_is_released_is_quick() -> None:
    code = (
        "import sys\n"
        "own = 'collector.capture.crash'\n"
        "for n, p in (('collector', []), ('collector.capture', []), (own, [sys.argv[1]])):\n"
        "    m = type(sys)(n); m.__path__ = p; sys.modules[n] = m\n"
        "import collector.capture.crash.handling, collector.capture.crash.keeping\n"
        "print(' '.join(sys.modules))"
    )
    words = [sys.executable, "-ISB", "-c", code, str(FOLDER)]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert loaded & SLOW == set()
