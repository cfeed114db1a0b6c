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

from pydantic import ValidationError

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.report import Gap, Process, Report
from analyzers.errors import EXIT_OK, EXIT_UNDETERMINED, UserError
from collector.discovery.model import Found

TIMEOUT = 120.0  # seconds; the verdict itself takes one, gdb's share is bounded at half a minute
MAX_REPORT = 16 << 20
BUNDLE, REPORT = "bundle.tar.zst", "report.json"


@dataclass(frozen=True)
class Judged:
    """What came of it. ``files`` are attachments, name to content; ``problem`` one line where there is no
    report."""

    report: Report | None
    files: Mapping[str, bytes]
    problem: str | None = None


@dataclass(frozen=True)
class Material:
    """What is known of one death. ``bundles`` are further inputs of triage: a capture's bundle, a core."""

    incarnation: Incarnation
    found: Found | None
    evidence: Sequence[Evidence]
    gaps: Sequence[Gap] = ()
    bundles: Sequence[Path] = ()


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
    """Write the bundle below ``folder`` and run triage on it. Never raises for what the evidence holds."""
    with TemporaryDirectory(prefix="judge-", dir=folder) as name:
        place = Path(name)
        try:
            write_bundle(place / BUNDLE, _parts(material), {}, list(material.evidence))
        except (UserError, OSError) as error:
            return Judged(None, {}, f"no bundle could be written: {error}")
        report, problem = _triage([place / BUNDLE, *material.bundles], place)
        files = {BUNDLE: (place / BUNDLE).read_bytes()}
        if report is not None:
            files[REPORT] = report.to_json().encode("utf-8", "backslashreplace")
        return Judged(report, files, problem)


def _parts(material: Material) -> ManifestParts:
    who, found = material.incarnation, material.found
    process = Process(pid=who.pid, start_time=who.start_time, boot_id=who.boot_id)
    if found is not None:
        process = process.model_copy(
            update={
                "exe": found.exe,
                "build": found.build,
                "build_id": found.build_id,
                "args": list(found.args),
                "role": found.role,
                "port": found.port,
            }
        )
    return ManifestParts(process=process, incarnations=(who,), gaps=tuple(material.gaps))


def _triage(inputs: Sequence[Path], place: Path) -> tuple[Report | None, str | None]:
    command = [sys.executable, "-m", "collector.agent.deaths.child", *map(str, inputs)]
    out = place / "out.json"
    try:
        with out.open("wb") as target:
            status = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT,
                env=_environment(place),
                cwd=place,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        return None, f"triage took over {TIMEOUT:g} s"
    except OSError as error:
        return None, f"triage could not be started ({error.strerror})"
    if status not in (EXIT_OK, EXIT_UNDETERMINED):
        return None, f"triage ended with status {status}"
    return _read(out)


def _read(path: Path) -> tuple[Report | None, str | None]:
    if path.stat().st_size > MAX_REPORT:
        return None, "the report is too large"
    try:
        return Report.model_validate_json(path.read_bytes()), None
    except ValidationError:
        return None, "the report cannot be read"


def _environment(place: Path) -> dict[str, str]:
    """Nothing of the agent's own: it may hold keys. Our code is found as this process found it."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "HOME": str(place), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
