"""What a triage of a core imports on its way to the verdict, as data: it stays quick while somebody looks."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import os, sys
import llama_blackbox_launcher as launcher
leave = os._exit
def tell(status):
    print("\\n".join(sys.modules), file=sys.stderr, flush=True)
    leave(status)
os._exit = tell
launcher.entry()
"""
# A header and nothing behind it: a core that was cut at once.
CORE = b"\x7fELF\x02\x01\x01" + bytes(9)
CORE += struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 0, 64, 0, 0)
NEVER = (
    "analyzers.bundle",
    "analyzers.logs.grammar",
    "analyzers.logs.journal",
    "analyzers.logs.scan",
    "analyzers.stacks.gdb",
    "bz2",
    "difflib",
    "email",
    "gzip",
    "html",
    "httpx",
    "importlib.metadata",
    "lzma",
    "pygdbmi",
    "shutil",
    "tempfile",
    "typer",
    "zstandard",
)
ONLY_IN_A_TERMINAL = ("analyzers.render", "rich")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start") / "core"
    path.write_bytes(CORE)
    return path


def imported(core: Path, *options: str) -> set[str]:
    roots = [str(Path(__file__).parents[3]), str(Path(__file__).parents[3] / "deploy")]
    done = subprocess.run(
        [sys.executable, "-c", RUN, "triage", str(core), "--fast", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots)},
        cwd="/",
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    assert done.stdout
    return set(done.stderr.split())


def test_a_verdict_as_json_imports_nothing_it_does_not_need(core: Path) -> None:
    found = imported(core, "--json")
    assert "analyzers.triage.run" in found
    assert found & {*NEVER, *ONLY_IN_A_TERMINAL} == set()


def test_a_verdict_in_a_terminal_imports_what_draws_it_and_no_more(core: Path) -> None:
    found = imported(core)
    assert found >= set(ONLY_IN_A_TERMINAL)
    assert found & set(NEVER) == set()
