"""A real router: the parent that starts one server per model of a preset file, and takes none with it.

Source: tools/server/server-models.cpp and README.md of b11138. A child has the router as its parent, its own
loopback port, no API key of its own, and prints through the router, which puts ``[port] `` before its lines.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzers.errors import UserError
from collector.lab.reference.client import REQUEST_TIMEOUT, Answer, Request, send
from collector.lab.reference.conditions import PROBE_TIMEOUT
from collector.lab.reference.cores import CoreSearch, CoreSettings, locate_core
from collector.lab.reference.output import Output
from collector.lab.reference.ports import LOOPBACK, choose_port
from collector.lab.reference.processes import Child, Ending, descendants
from collector.lab.reference.server import (
    CORE_DEADLINE,
    OUTPUT_GRACE,
    POLL,
    START_DEADLINE,
    TAKE_DOWN_GRACE,
)
from collector.lab.reference.spec import ServerSpec, environment, launched

PRESETS, KEY_FILE, LOG = "presets.ini", "api-key", "router.log"
UNLOADED, LOADED, SLEEPING = "unloaded", "loaded", "sleeping"  # GET /models, data[].status.value


@dataclass(frozen=True)
class RoutedModel:
    """One section of the preset file. ``idle_seconds`` -1 never sleeps."""

    name: str
    path: Path
    idle_seconds: int = -1
    context: int = 512

    def section(self) -> str:
        rows = {
            "model": self.path,
            "sleep-idle-seconds": self.idle_seconds,
            "ctx-size": self.context,
            "parallel": 1,
            "threads": 1,
            "metrics": "true",
            # a warm-up leaves the heap so that the reload gets the freed blocks back: D1 then answers
            # rightly, poisoned or not (0 of 6, without it 6 of 6)
            "no-warmup": "true",
        }
        return "\n".join((f"[{self.name}]", *(f"{key} = {value}" for key, value in rows.items()), ""))


@dataclass(frozen=True)
class RouterSpec:
    """A router on ``binary``. It loads nothing by itself; its children inherit the poison."""

    binary: Path
    models: tuple[RoutedModel, ...]
    models_max: int = 1
    poisoned: bool = False
    port: int | None = None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChildProcess:
    """A living child: its PID, start time (clock ticks since boot), port and model name."""

    pid: int
    start_ticks: int
    port: int
    name: str


class RunningRouter:
    """A live router. ``folder`` is its working folder, where its children's cores fall; ``output.path`` the
    log that it and all its children print. Leaving its context takes the whole family down.

    The thread that started it must outlive it: the kernel ties the router's life to that thread, and a child
    ends when the router's end of its standard input does.
    """

    def __init__(self, spec: RouterSpec, folder: Path) -> None:
        self.spec = spec
        self.folder = folder
        self.port = choose_port(spec.port)
        self.api_key = secrets.token_hex(16)
        self.started_wall = time.time()
        self.started_mono = time.monotonic()
        self.tids: dict[int, set[int]] = {}
        self._changed = threading.Condition()
        popen = self._spawn()
        assert popen.stdout is not None  # noqa: S101 - it was asked for
        self._process = Child(popen, self._notify)
        self.output = Output(popen.stdout, folder / LOG, self._notify)  # type: ignore[arg-type]

    def __enter__(self) -> RunningRouter:
        return self

    def __exit__(self, *_: object) -> None:
        self.take_down()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ending(self) -> Ending | None:
        """How the router itself ended, or None while it lives."""
        return self._process.ending

    def send(self, request: Request) -> Answer:
        """One request to the router, with its key."""
        return send(self.port, request, self.api_key)

    def post(self, route: str, body: object, timeout: float = REQUEST_TIMEOUT) -> Answer:
        return self.send(Request("POST", route, body, timeout=timeout))

    def statuses(self) -> dict[str, str]:
        """Model name -> status as GET /models tells it, which asks no child and loads nothing."""
        body = self.send(Request("GET", "/models", timeout=PROBE_TIMEOUT)).json()
        rows: list[Any] = body.get("data", []) if isinstance(body, dict) else []
        return {str(row["id"]): str(row["status"]["value"]) for row in rows}

    def children(self) -> list[ChildProcess]:
        """The living children, from their command lines."""
        found = ((member, _words(member.pid)) for member in descendants(self.pid))
        return [
            ChildProcess(member.pid, member.start_ticks, int(port), name)
            for member, words in found
            if (port := _value(words, "--port")) and (name := _value(words, "--alias"))
        ]

    def load(self, name: str, deadline: float = START_DEADLINE) -> ChildProcess:
        """Load ``name`` and wait until its child serves. Raises UserError when it does not."""
        answer = self.post("/models/load", {"model": name})
        if answer.status == 200 and self.wait_until(lambda: self.statuses().get(name) == LOADED, deadline):
            self.note_threads()
            for child in self.children():
                if child.name == name:
                    return child
        raise UserError(
            f"the router did not load {name!r} (HTTP {answer.status}); it said: {self.output.telling_text()}",
            where=str(self.spec.binary),
            remedy="check that the build has POST /models/load and that the model is whole",
        )

    def unload(self, name: str, deadline: float = TAKE_DOWN_GRACE) -> bool:
        """The planned end of a child; True when it is gone in time."""
        self.post("/models/unload", {"model": name})
        return self.wait_until(lambda: self.statuses().get(name) == UNLOADED, deadline)

    def wait_until(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait at most ``deadline`` seconds; looked at again after each piece of output and every 20 ms."""
        end = time.monotonic() + deadline
        while True:
            last = self.ending is not None or time.monotonic() >= end
            self.note_threads()
            if condition():
                return True
            if last:
                return False
            with self._changed:
                self._changed.wait(min(POLL, max(0.0, end - time.monotonic())))

    def note_threads(self) -> None:
        """Remember the children's thread ids: the kernel names a dead thread, never its process."""
        for member in descendants(self.pid):
            with suppress(OSError, ValueError):
                names = os.listdir(f"/proc/{member.pid}/task")
                self.tids.setdefault(member.pid, set()).update(int(name) for name in names)

    def core_of(self, pid: int, deadline: float = CORE_DEADLINE) -> CoreSearch:
        """The core of the dead child ``pid``, waiting for a handler that may still write it."""
        settings = CoreSettings.of_machine()
        end = time.monotonic() + (deadline if settings.pattern.startswith("|") else 0.0)
        while True:
            found = locate_core(pid, self.folder, settings=settings, since=int(self.started_wall))
            if found.path is not None or time.monotonic() >= end:
                return found
            time.sleep(POLL)

    def take_down(self) -> None:
        """Kill the router and every child of it that is left, and reap. Safe to call again."""
        self._process.take_down(TAKE_DOWN_GRACE)
        self.output.finish(OUTPUT_GRACE)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            launched(self._command()),
            cwd=self.folder,
            env=environment(_environment_spec(self.spec)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _command(self) -> list[str]:
        presets = self.folder / PRESETS
        presets.write_text("version = 1\n\n" + "\n".join(model.section() for model in self.spec.models))
        key = os.open(self.folder / KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(key, "w") as file:
            file.write(f"{self.api_key}\n")
        options = {
            "--models-preset": presets,
            "--models-max": self.spec.models_max,
            "--api-key-file": self.folder / KEY_FILE,
            "--host": LOOPBACK,
            "--port": self.port,
        }
        given = [part for name, value in options.items() for part in (name, str(value))]
        return [str(self.spec.binary), *given, "--no-models-autoload", *self.spec.arguments]


def start_router(spec: RouterSpec, folder: Path) -> RunningRouter:
    """A router that answers GET /health with 200. ``folder`` keeps its log, presets and cores.

    Raises UserError, with the router's last line, when the program is missing, the port is taken, or the
    router ends or is silent instead of coming up.
    """
    if not (spec.binary.is_file() and os.access(spec.binary, os.X_OK)):
        raise UserError(
            "not a program that can be run", where=str(spec.binary), remedy="give a llama-server binary"
        )
    folder.mkdir(parents=True, exist_ok=True)
    router = RunningRouter(spec, Path(tempfile.mkdtemp(prefix="router-", dir=folder)))
    if router.wait_until(lambda: _healthy(router), START_DEADLINE) and router.ending is None:
        return router
    router.take_down()
    shutil.rmtree(router.folder, ignore_errors=True)
    raise UserError(
        f"the router did not come up; it said: {router.output.telling_text()}",
        where=str(spec.binary),
        remedy="check that it is a llama-server with a router mode (--models-preset)",
    )


def _healthy(router: RunningRouter) -> bool:
    return router.send(Request("GET", "/health", timeout=PROBE_TIMEOUT)).status == 200


def _environment_spec(spec: RouterSpec) -> ServerSpec:
    return ServerSpec(model=spec.models[0].path, binary=spec.binary, poisoned=spec.poisoned)


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def _value(words: list[str], option: str) -> str | None:
    at = words.index(option) + 1 if option in words else len(words)
    return words[at] if at < len(words) else None
