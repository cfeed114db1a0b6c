"""Twenty real cores of five builds: what the minimal core shows is what the whole one shows, in both tools.

Each server dies once, awake, asleep, aborting, or with a request inside; the crash path keeps both cores of
that one death, and eu-stack and gdb read them side by side.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest
from crash_lab import installed, manifest, needs_root
from test_crash_real import BOTTOMS, gdb_stacks, stacks

from collector.lab.faults.prompts import long_tokenize
from collector.lab.native.build import Recipe, find_build
from collector.lab.reference import ReferenceServer, RunningServer, ServerSpec, cached_model
from collector.lab.reference.conditions import asleep, exited
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION, prepare

pytestmark = [pytest.mark.real, needs_root]
DEADLINE = 60.0
BUILDS = (
    STALE_CAPTURE_VERSION,
    UNLOAD_VERSION,
    Recipe(11138),
    Recipe(11368),
    Recipe(11368, "count-requests"),
)
SHAPES = ("awake", "asleep", "aborting", "busy")


def spec_of(build: str | Recipe) -> ServerSpec:
    if isinstance(build, str):
        return ServerSpec(cached_model(), python=prepare(build), idle_seconds=1)
    made = find_build(build)
    if made is None:
        pytest.skip(f"not compiled here; run: llama-blackbox reference build --build {build.build}")
    return ServerSpec(cached_model(), binary=made.binary, environment=made.environment, idle_seconds=1)


def die(server: RunningServer, shape: str) -> None:
    """Bring it into ``shape`` and end it there."""
    if shape == "asleep":
        assert server.wait_until(asleep, DEADLINE)
    if shape == "busy":
        server.begin(long_tokenize())
    os.kill(server.pid, signal.SIGABRT if shape == "aborting" else signal.SIGSEGV)
    assert server.wait_until(exited, DEADLINE)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceServer]:
    with ReferenceServer(tmp_path_factory.mktemp("servers")) as reference:
        yield reference


@pytest.mark.full
@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("build", BUILDS, ids=lambda each: getattr(each, "name", each))
def test_a_minimal_core_shows_every_stack_of_the_whole_one(
    lab: ReferenceServer, build: str | Recipe, shape: str
) -> None:
    # GIVEN a server that dies while the crash path keeps both cores
    server = lab.start(spec_of(build))
    with installed(mode="full") as place:
        die(server, shape)
        capture = place.of(server.pid)
        told = manifest(capture)
        # THEN every thread is in the minimal one, down to where it began
        found = stacks(capture / "core")
        assert len(found) == told["core"]["threads"] > 1
        assert {stack[-1] for stack in found} <= set(BOTTOMS)
        # AND both tools say the same of the whole core, name by name
        assert told["full_core"]["whole"]
        assert stacks(capture / "core.full") == found
        exe = told["process"]["exe"]["path"]
        text = gdb_stacks(capture / "core", exe)
        assert text.count("#0") == len(found)
        assert gdb_stacks(capture / "core.full", exe) == text
