"""Judges a death: its evidence into a bundle, the bundle to triage, in a process of its own and off the loop.

Triage needs memory, stack tools and seconds. It runs as a low-priority child with limits, so that a hostile
core takes that child down and not the agent; the child gets one path and gives back one JSON report.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter, ValidationError

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.report import Process, Report
from analyzers.errors import EXIT_OK, EXIT_UNDETERMINED
from collector.agent.deaths.child import BUNDLE, REPORT
from collector.agent.deaths.request import Request
from collector.discovery.model import Found

TIMEOUT = 120.0  # seconds; the verdict itself takes one, gdb's share is bounded at half a minute
MAX_REPORT = 16 << 20  # bytes of a bundle or report that are kept as an attachment


@dataclass(frozen=True)
class Judged:
    """What came of it. ``files`` are attachments, name to content; ``problem`` one line where there is no
    report."""

    report: Report | None
    files: Mapping[str, bytes]
    problem: str | None = None


@dataclass(frozen=True)
class Material:
    """What is known of one death, and where more may lie: ``wall`` Unix seconds of it, None for a server that
    lives; ``folder`` its working folder, ``logs`` files it printed to, ``store`` of captures."""

    incarnation: Incarnation
    found: Found | None
    evidence: Sequence[Evidence]
    wall: float | None = None
    signal: int | None = None
    folder: str | None = None
    logs: Sequence[str] = ()
    store: str | None = None


class Judge:
    """One death at a time, in the order of coming. ``done`` gives what was finished since the last call."""

    def __init__(self, folder: Path, *, run: Callable[[Material, Path], Judged] | None = None) -> None:
        self._folder = folder
        self._run = run or judge
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self._running: dict[str, Future[Judged]] = {}

    @property
    def busy(self) -> frozenset[str]:
        """Ids of the incidents under judgement."""
        return frozenset(self._running)

    def take(self, incident: str, material: Material) -> None:
        """Judge it when its turn comes; one that is under judgement already is left."""
        if incident not in self._running:
            self._running[incident] = self._pool.submit(self._run, material, self._folder)

    def done(self) -> list[tuple[str, Judged]]:
        """(incident, outcome) of everything that is finished."""
        ready = [name for name, future in self._running.items() if future.done()]
        return [(name, _outcome(self._running.pop(name))) for name in ready]

    def close(self) -> None:
        """Start no more; what runs is bounded by its own time."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _outcome(future: Future[Judged]) -> Judged:
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001  a judgement that fails must not end the agent
        return Judged(None, {}, f"triage could not be run ({type(error).__name__})")


def judge(material: Material, folder: Path) -> Judged:
    """Run the child in a private folder below ``folder``. Never raises for what the evidence holds."""
    with TemporaryDirectory(prefix="judge-", dir=folder) as name:
        place = Path(name)
        problem = _run(material, place)
        report, unread = _read(place / REPORT) if problem is None else (None, problem)
        files = {each: data for each in (BUNDLE, REPORT) if (data := _bytes(place / each))}
        if report is None:
            files.pop(REPORT, None)
        return Judged(report, files, unread)


def _run(material: Material, place: Path) -> str | None:
    """Why there is no report, None when there should be one."""
    command = [sys.executable, "-m", "collector.agent.deaths.child", str(place)]
    try:
        status = subprocess.run(
            command,
            input=TypeAdapter(Request).dump_json(_request(material)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            env=_environment(place),
            cwd=place,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        return f"triage took over {TIMEOUT:g} s"
    except OSError as error:
        return f"triage could not be started ({error.strerror})"
    return None if status in (EXIT_OK, EXIT_UNDETERMINED) else f"triage ended with status {status}"


def _request(material: Material) -> Request:
    who, found = material.incarnation, material.found
    process = Process(pid=who.pid, start_time=who.start_time, boot_id=who.boot_id)
    if found is not None:
        named = {"exe": found.exe, "build": found.build, "build_id": found.build_id, "role": found.role}
        process = process.model_copy(update={**named, "args": list(found.args), "port": found.port})
    return Request(
        incarnation=who,
        evidence=tuple(material.evidence),
        process=process,
        wall=material.wall,
        unit=found.place.unit if found is not None else None,
        signal=material.signal,
        folder=material.folder,
        logs=tuple(material.logs),
        store=material.store,
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= MAX_REPORT else b""
    except OSError:
        return b""


def _read(path: Path) -> tuple[Report | None, str | None]:
    data = _bytes(path)
    try:
        return Report.model_validate_json(data), None
    except ValidationError:
        return None, "the report cannot be read"


def _environment(place: Path) -> dict[str, str]:
    """Nothing of the agent's own: it may hold keys. Our code is found as this process found it."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "HOME": str(place), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
