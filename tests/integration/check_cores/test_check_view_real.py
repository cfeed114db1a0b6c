"""`check` on real servers: hosted, two native builds, a router with its child; no request is sent by it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.lab.native.build import find_build
from collector.lab.native.recipe import Recipe
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.ports import free_port
from collector.lab.reference.router import RoutedModel, RouterSpec, start_router
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec

pytestmark = pytest.mark.real

COMMAND = str(Path(sys.executable).with_name("llama-blackbox"))
DEADLINE = 30.0


def native(number: int) -> Path:
    found = find_build(Recipe(number))
    if found is None:
        pytest.skip(f"NATIVE SERVERS ARE NOT TESTED: no cached build of b{number}")
    return found.binary


def check(*words: object) -> tuple[int, dict[str, Any]]:
    argv = [COMMAND, "check", *map(str, words), "--json"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE)
    assert ran.stderr == ""
    return ran.returncode, json.loads(ran.stdout)


def only(*words: object) -> dict[str, Any]:
    servers = check(*words)[1]["servers"]
    assert len(servers) == 1
    return servers[0]  # type: ignore[no-any-return]


def defects(server: dict[str, Any]) -> dict[str, str]:
    return {row["defect"]: row["standing"] for row in server["defects"]}


@contextlib.contextmanager
def running(binary: Path, model: Path, log: Path, *more: str) -> Iterator[tuple[int, str]]:
    """(PID, address) of a native server that answers; its words go to ``log``."""
    port = free_port()
    argv = [str(binary), "-m", str(model), "--port", str(port), "-c", "256", "-t", "1", "-np", "1", *more]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: httpx.get(f"{address}/health", timeout=1).status_code == 200)
        yield process.pid, address
    finally:
        process.kill()
        process.wait(DEADLINE)


def until(true: Any) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        with contextlib.suppress(OSError, httpx.TransportError):
            if true():
                return
        time.sleep(0.02)
    raise AssertionError("it never came")


def ask(address: str) -> None:
    body = {"prompt": "a", "n_predict": 1}
    httpx.post(f"{address}/completion", json=body, timeout=DEADLINE).raise_for_status()


def test_a_server_asleep_is_not_woken_and_its_wake_is_read_from_its_log(tmp_path: Path) -> None:
    # GIVEN a model of its own, and a server that slept, woke once and sleeps again
    model, log = tmp_path / "model.gguf", tmp_path / "log"
    shutil.copy(cached_model(), model)
    os.utime(model, (1, 1))
    with running(native(11368), model, log, "--sleep-idle-seconds", "1") as (pid, address):
        before = only("--pid", pid)
        assert before["wake"]["how"] == "load"
        until(lambda: b"is entering sleeping" in log.read_bytes())
        ask(address)
        until(lambda: log.read_bytes().count(b"is entering sleeping") == 2)
        size = log.stat().st_size
        # WHEN it is checked
        seen = only("--pid", pid)
        # THEN the build stands where it should, with measured settings
        assert (defects(seen)["D1"], defects(seen)["D2"], defects(seen)["D3"]) == (
            "clear",
            "exposed",
            "exposed",
        )
        assert seen["settings"]["sleep-idle-seconds"] == {"value": "1", "origin": "command-line"}
        assert seen["listening"]["scope"] == "local"
        assert {row["state"] for row in seen["model_files"]} == {"present"}
        assert (seen["wake"]["how"], 0 < seen["wake"]["seconds"] < DEADLINE) == ("log", True)
        # AND it said nothing meanwhile: no request came, no wake
        assert log.stat().st_size == size
        # AND a model that is taken away is told
        model.unlink()
        gone = only("--pid", pid)
        assert [row["state"] for row in gone["model_files"]] == ["missing"]
        assert any(row["about"] == "model" and row["level"] == "lost" for row in gone["findings"])


def test_the_older_build_by_its_marks_open_to_the_network(tmp_path: Path) -> None:
    binary = native(11138)
    words = ("--sleep-idle-seconds", "60", "--host", "0.0.0.0")  # noqa: S104
    with running(binary, cached_model(), tmp_path / "log", *words) as (pid, _):
        seen = only("--pid", pid)
        assert defects(seen)["D1"] == "exposed"
        routes = {
            row["known"]: row["routes"]
            for one in seen["defects"]
            for row in one["routes"]
            if one["defect"] == "D1"
        }
        assert "POST /v1/messages/count_tokens" in routes["presumed"]
        assert (seen["listening"]["scope"], seen["listening"]["key"]) == ("all", False)
        assert any(row["about"] == "scope" and row["level"] == "risk" for row in seen["findings"])
    # AND the same of the file alone
    status, document = check("--server-bin", binary)
    assert (status, defects(document["servers"][0])["D1"]) == (1, "exposed")


def test_one_that_never_sleeps_is_fine(tmp_path: Path) -> None:
    with running(native(11368), cached_model(), tmp_path / "log") as (pid, _):
        status, document = check("--pid", pid)
        assert (status, document["servers"][0]["verdict"]) == (0, "off")


def test_a_hosted_server_is_possible_at_most_and_never_clear(tmp_path: Path) -> None:
    with ReferenceServer(tmp_path) as lab:
        server = lab.start(ServerSpec(cached_model(), python=prepare(UNLOAD_VERSION), idle_seconds=60))
        seen = only("--pid", server.pid)
        assert (seen["role"], seen["verdict"], seen["sleep_idle_seconds"]) == ("hosted", "possible", None)
        assert seen["listening"]["key"] is None
        assert seen["model_files"][0]["state"] == "present"
        assert "program that hosts it" in " ".join(row["advice"] or "" for row in seen["defects"])


def test_a_router_and_its_child(tmp_path: Path) -> None:
    models = (RoutedModel("tiny", cached_model(), idle_seconds=60), RoutedModel("awake", cached_model()))
    with start_router(RouterSpec(native(11368), models, models_max=2), tmp_path) as router:
        child = router.load("tiny")
        parent, seen = only("--pid", router.pid), only("--pid", child.pid)
        assert (parent["role"], parent["verdict"], parent["sleep_idle_seconds"]) == ("router", "exposed", 60)
        assert "tiny" in parent["sleep"]
        assert (seen["role"], seen["verdict"], seen["restart"]["fires"]) == (
            "child",
            "exposed",
            "at-next-request",
        )
        assert seen["settings"]["sleep-idle-seconds"]["origin"] == "preset:tiny"
        assert any("[tiny]" in (row["advice"] or "") for row in seen["defects"])
        assert router.api_key not in json.dumps([parent, seen])
        awake = router.load("awake")
        assert only("--pid", awake.pid)["verdict"] == "off"
