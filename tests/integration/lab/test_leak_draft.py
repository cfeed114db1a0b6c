"""verify leak on real servers: both sides of the change that freed the draft model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from collector.lab.reference.environments import UNLOAD_VERSION

pytestmark = pytest.mark.real
AFFECTED_VERSION = "2026.5.9093"  # the newest wheel that keeps the draft while asleep
FEWEST = 6
RUN = """
import sys
import typer
from collector.lab.verify.leak.cli import leak
app = typer.Typer()
app.command()(leak)
sys.exit(app(sys.argv[1:], standalone_mode=False))
"""


def leak(version: str, cycles: int) -> tuple[int, dict]:
    """Exit status and document of one run, as a user would start it."""
    options = ["--version", version, "--cycles", str(cycles), "--json", "-"]
    done = subprocess.run([sys.executable, "-c", RUN, *options], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def check(version: str, cycles: int, status: int, outcome: str) -> None:
    code, run = leak(version, cycles)
    (found,) = run["findings"]
    assert code == status, found
    assert {trial["outcome"] for trial in run["trials"]} == {outcome}
    assert found["reached"] == cycles
    # the draft was in memory while awake: the figure can tell it from nothing
    assert all(trial["loaded_mib"] > trial["draft_mib"] for trial in run["trials"])
    assert {trial["draft_mapped"] for trial in run["trials"]} == {outcome == "leaked"}


def test_a_current_build_frees_the_draft() -> None:
    check(UNLOAD_VERSION, FEWEST, 0, "answered")


@pytest.mark.full
@pytest.mark.parametrize("version", ["2026.4.8672.1", "2026.4.8929", AFFECTED_VERSION])
def test_builds_before_the_change_keep_it_at_every_sleep(version: str) -> None:
    check(version, 20, 1, "leaked")


@pytest.mark.full
@pytest.mark.parametrize("version", ["2026.5.9294", "2026.7.10068", UNLOAD_VERSION])
def test_builds_after_the_change_never_do(version: str) -> None:
    check(version, 20, 0, "answered")
