"""What this host still holds of a death, beside what the agent saw: core, capture, journal slice, log files.

Runs in the judging child, not in the agent: it opens cores and starts tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.facts import AbortFact, CoreFact, ExitFact, KernelFact, LogFact
from analyzers.errors import UserError
from collector.agent.deaths.request import Request
from collector.capture.kept.bundling import bundle_of
from collector.capture.kept.captures import Capture, captures
from collector.gather import logs
from collector.gather.dead import gather_death
from collector.gather.deaths import Death, Places, find_deaths
from collector.gather.haul import Haul
from collector.gather.tools import quoted
from collector.gather.wanted import Wanted

SAME_DEATH_SECONDS = 120.0  # a core is there once it is written: 4 GB keep a process dying for 23 s
MAX_LOGS = 4


def gather(request: Request, room: Path) -> Haul:
    """The haul to judge. ``room``: private and temporary. Raises nothing for what cannot be had."""
    haul = Haul() if request.wall is None else _of_death(request, request.wall, room)
    known = haul.process
    told = {name: value for name, value in request.process if value not in (None, [], "unknown")}
    haul.process = known.model_copy(update=told)
    _add_logs(haul, request.logs)
    haul.facts(_not_doubled(request.evidence, haul))
    return haul


def _of_death(request: Request, wall: float, room: Path) -> Haul:
    places = Places(folders=(Path(request.folder),) if request.folder else ())
    capture = _capture_of(request, wall)
    if capture is not None:
        with suppress(UserError, OSError):
            return bundle_of(capture, places, room)
    return gather_death(places, _death_of(request, wall, places), room)


def _capture_of(request: Request, wall: float) -> Capture | None:
    if request.store is None:
        return None
    with suppress(OSError):
        for each in captures(Path(request.store)):
            who = Incarnation(pid=each.pid, boot_id=each.boot_id)
            if who.same_as(request.incarnation) and abs(each.wall - wall) < SAME_DEATH_SECONDS:
                return each
    return None


def _death_of(request: Request, wall: float, places: Places) -> Death:
    """The death as this host's own records name it, else as the agent saw it."""
    who = request.incarnation
    found: list[Death] = []
    with suppress(UserError, OSError):
        found = find_deaths(places, Wanted(pid=who.pid))[0]
    near = [death for death in found if abs(death.wall - wall) < SAME_DEATH_SECONDS]
    seen = Death(wall=wall, by="the agent", pid=who.pid, boot_id=who.boot_id, signal=request.signal)
    best = min(near, key=lambda death: (death.core is None, abs(death.wall - wall)), default=seen)
    unit = request.unit if request.unit and request.unit.endswith(".service") else best.unit
    return replace(best, unit=unit, boot_id=best.boot_id or who.boot_id, pid=who.pid)


def _add_logs(haul: Haul, paths: Sequence[str]) -> None:
    for number, path in enumerate(paths[:MAX_LOGS]):
        data = logs.bounded(Path(path))
        name = f"server-{number}.log" if number else "server.log"
        if data is None:
            haul.gap("the server's log file", "it may not be read, or is gone", f"sudo cat {quoted(path)}")
        elif data and name not in haul.files:
            haul.add(name, data, "server-log")


def _not_doubled(evidence: Iterable[Evidence], haul: Haul) -> list[Evidence]:
    """The agent's facts but those that a file of the haul says again: a line is to be counted once."""
    has_journal = "journal.export" in haul.files
    left: set[str] = set()
    if has_journal or any(name.startswith("server") for name in haul.files):
        left |= {LogFact.KIND, AbortFact.KIND}
    if any(name.startswith("kernel") for name in haul.files):
        left.add(KernelFact.KIND)
    if any(item.kind == CoreFact.KIND for item in haul.evidence):
        left.add(CoreFact.KIND)
    return [item for item in evidence if item.kind not in left and not (has_journal and _manager_said(item))]


def _manager_said(item: Evidence) -> bool:
    return item.kind == ExitFact.KIND and item.data.get("by") == "systemd"
