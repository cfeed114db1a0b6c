"""Symbol files, start-up files and scripts that ask gdb to run code: triage's gdb never does.

Each plant is shown to work in a plain gdb first, so that its silence under triage means something.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hostile_plants import PLANTS, Scene, plain_gdb, scene
from hostile_run import run

from analyzers.stacks import confine

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not all(map(shutil.which, ("gdb", "gcc", "objcopy", "readelf"))), reason="gdb or gcc is not installed"
    ),
]


def triaged(made: Scene, **env: str) -> dict:
    """The report, gdb's part with it, read where every plant could be found."""
    words = ("--json", "--exe", made.program, "--symbols", made.symbols, made.core)
    ran = run(made.folder, *words, env=env, cwd=made.cwd)
    assert ran.status in (0, 3), ran.err[-2000:]
    return json.loads(ran.out)


def asked_gdb(report: dict) -> list[dict]:
    """The frames that gdb gave: it did run, and did read the program."""
    return [frame for thread in report["threads"] if thread["rung"] == "gdb" for frame in thread["frames"]]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_planted_code_is_never_run(tmp_path: Path, plant) -> None:
    # GIVEN files that make a canary when gdb trusts them, as a plain gdb shows
    made = plant(tmp_path / "scene")
    said = plain_gdb(made)
    assert made.canary.exists(), said
    made.canary.unlink()
    # WHEN triage asks its gdb and its other tools about the same core
    report = triaged(made)
    # THEN gdb was there, and the canary is not
    assert asked_gdb(report), report["gaps"]
    assert not made.canary.exists()


def test_only_the_settings_keep_it_from_running(tmp_path: Path) -> None:
    # GIVEN the confinement that triage gives its tools WHEN a tool there makes the canary THEN it can
    made = scene(tmp_path / "scene")
    confine.run(["touch", str(made.canary)], seconds=20, memory_bytes=64 << 20, output_bytes=4096)
    assert made.canary.exists()


@contextmanager
def symbol_server() -> Iterator[tuple[str, list[str]]]:
    """A debuginfod that has nothing, and remembers what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_no_symbol_is_asked_of_the_network(tmp_path: Path) -> None:
    # GIVEN a stripped program and a symbol server in the environment, which a plain gdb asks
    made = scene(tmp_path / "scene")
    shutil.copy(made.program, made.folder / "whole")
    import subprocess

    subprocess.run(["strip", "--strip-all", made.program], check=True)
    with symbol_server() as (url, asked):
        places = {"DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": str(made.folder / "cache")}
        said = plain_gdb(made, "-iex", "set debuginfod enabled on", env=places)
        if not asked:
            pytest.skip(f"this gdb has no debuginfod: {said[-200:]}")
        asked.clear()
        # WHEN triage reads the same core THEN nobody is asked
        triaged(made, **places)
        assert asked == []
