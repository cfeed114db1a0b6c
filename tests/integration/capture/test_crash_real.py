"""Real hosted servers that die of D1 and D2: kept whole, in both modes."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from crash_lab import installed, manifest, needs_root, table, until

from collector.lab.faults import d2_unload_under_reader, provoked
from collector.lab.faults.d1_stale_capture import SLEEP_DEADLINE
from collector.lab.faults.prompts import count_tokens
from collector.lab.faults.provoked import Stage
from collector.lab.reference import ReferenceServer, RunningServer, ServerSpec, cached_model
from collector.lab.reference.conditions import asleep, exited
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, prepare

pytestmark = [pytest.mark.real, needs_root]
DEATH = 30.0
# What D1's stale pointer finds hangs on where the reload's memory lands. Until the lab switched glibc's fast
# bins off as well, some environments made every server answer "0 tokens" and live on, and this waited in
# vain. All of 40 faulted since; the next try has an environment of another length.
PADDING = 512
TRIES = 3
BOTTOMS = ("clone", "clone3", "__clone3", "__clone", "_start")
KEY = "sk-a-key-nobody-may-see"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceServer]:
    with ReferenceServer(tmp_path_factory.mktemp("servers")) as reference:
        yield reference


def sleeping(lab: ReferenceServer, turn: int = 0, python: Path | None = None) -> RunningServer:
    """A server asleep, its environment of another length at each turn."""
    spec = ServerSpec(
        cached_model(),
        python=python or prepare(STALE_CAPTURE_VERSION),
        idle_seconds=1,
        poisoned=True,
        api_key=KEY,
        environment={"PADDING": "x" * (turn * PADDING), "GGML_NO_BACKTRACE": "1"},
    )
    server = lab.start(spec)
    assert server.wait_until(asleep, SLEEP_DEADLINE)
    return server


def struck(sleeper: Callable[[int], RunningServer]) -> RunningServer:
    """A server that one token count in its sleep ended by a fault. ``sleeper``: starts the one of a turn."""
    said = []
    for turn in range(TRIES):
        server = sleeper(turn)
        answer = server.send(count_tokens())
        assert answer.status is not None or server.wait_until(exited, DEATH), answer
        if server.ending is not None and server.ending.signal == signal.SIGSEGV:
            return server
        said.append(f"{answer.status} {answer.body[:60]!r} {server.ending}")
        server.take_down()
    raise AssertionError(f"none of {TRIES} servers faulted: {said}")


def stacks(core: Path) -> list[list[str]]:
    """Functions of every thread, the innermost first."""
    out = subprocess.run(["eu-stack", "--core", core], capture_output=True, text=True, check=False).stdout
    parts = out.split("\nTID ")[1:]
    return [[line.split(None, 2)[-1] for line in part.splitlines()[1:]] for part in parts]


def gdb_stacks(core: Path, exe: str) -> str:
    words = ["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]
    words += ["-ex", "thread apply all bt", exe, str(core)]
    text = subprocess.run(words, capture_output=True, text=True, check=False).stdout.partition("\nThread ")[2]
    # gdb 13 warns of the kernel's NT_X86_XSTATE notes, which a minimal core leaves out.
    return "\n".join(line for line in text.splitlines() if line.strip() and "xstate" not in line)


@pytest.mark.parametrize("mode", ["minimal", "full"])
def test_a_real_d1_is_kept_with_every_stack_whole(lab: ReferenceServer, mode: str) -> None:
    # GIVEN a real server that sleeps; WHEN one token count ends it, its client still waiting
    with installed(mode=mode) as place:
        capture = place.of(struck(partial(sleeping, lab)).pid)
        told = manifest(capture)
        # THEN it is known by its mapped library, and every stack reaches its bottom
        assert told["mark"].startswith("mapped xllamacpp")
        found = stacks(capture / "core")
        assert len(found) == told["core"]["threads"] == len(table(capture, "threads.json"))
        assert {stack[-1] for stack in found} <= set(BOTTOMS)
        assert any("handle_count_tokens" in frame for frame in found[0])
        assert all(row["whole"] for row in told["stacks"])
        # AND gdb sees the same with the libraries' names, and the kernel's own core says nothing else
        text = gdb_stacks(capture / "core", told["process"]["exe"]["path"])
        assert "handle_count_tokens" in text
        assert "xllamacpp.abi3.so" in text
        assert "?? ()" not in text
        if mode == "full":
            assert told["full_core"]["whole"]
            assert stacks(capture / "core.full") == found
            assert gdb_stacks(capture / "core.full", told["process"]["exe"]["path"]) == text
        # AND the waiting client's connection is there, and nothing of the key
        rows = table(capture, "sockets.json")["sockets"]
        assert {row["state"] for row in rows} >= {"listen", "established"}
        assert any(row.get("bytes_received", 0) > 0 for row in rows)
        assert [path.name for path in capture.iterdir() if KEY.encode() in json_free(path)] == []


def json_free(path: Path) -> bytes:
    """Its bytes, unless it is memory of the process."""
    return b"" if path.name.startswith("core") else path.read_bytes()


def test_a_real_d2_is_kept(lab: ReferenceServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provoked, "_core", lambda *_: CoreSearch(None, "the handler has it"))
    with installed() as place:
        stage = Stage(lab, ServerSpec(cached_model(), python=prepare("2026.10.11549")))
        done = d2_unload_under_reader.provoke(stage)
        if done.outcome != "crash":
            pytest.skip(f"it answered this time: {done.outcome}")
        assert until(lambda: bool(place.captures())), place.told()
        told = manifest(place.captures()[-1])
        assert told["core"]["threads"] == len(stacks_bounded(place.captures()[-1] / "core"))
        assert told["crash"]["signal"] in (6, 11)
        assert json.dumps(told).count("no time was left") == 0


def stacks_bounded(core: Path) -> list[str]:
    """Thread headings; an endless recursion is cut short."""
    out = subprocess.run(
        ["eu-stack", "-n", "64", "--core", core], capture_output=True, text=True, check=False
    ).stdout
    return out.split("\nTID ")[1:]
