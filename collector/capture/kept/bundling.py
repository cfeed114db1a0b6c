"""A bundle from a capture: what its core says, what the host's journal and kernel say of that death, and the
files of the capture that hold no memory. Redacted; memory only when private content was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analyzers.contracts.evidence import Incarnation, Trust
from analyzers.contracts.facts import ExitFact, to_evidence
from collector.capture.kept.captures import Capture, read_json
from collector.capture.kept.descriptors import files_without_names
from collector.gather.dead import gather_death
from collector.gather.deaths import Death, Places
from collector.gather.haul import Haul
from collector.gather.settings import settings_evidence
from collector.gather.tools import read_text

# Below context/ in the bundle: for people, redacted like every text.
FOR_PEOPLE = (
    *("maps", "smaps_rollup", "status", "limits", "cgroup", "mountinfo", "coredump_filter", "oom_score_adj"),
    *("io", "threads.json", "sockets.json", "settings.json"),
)
DESCRIPTORS = "descriptors.json"
_MOST = 16 << 20


def bundle_of(capture: Capture, places: Places, folder: Path, *, private: bool = False) -> Haul:
    """The haul to write. ``folder``: private and temporary. Raises nothing for what cannot be had."""
    haul = gather_death(places, death_of(capture), folder, private=private)
    who = Incarnation(pid=_core_pid(capture), start_time=capture.start_seconds, boot_id=capture.boot_id)
    _same_life(haul, who)
    if capture.core is None:
        _trace_only(haul, capture, who)
    _settings(haul, capture, who)
    for name in FOR_PEOPLE:
        haul.context(name, read_text(capture.path / name, _MOST))
    haul.context(
        DESCRIPTORS, (read_text if private else files_without_names)(capture.path / DESCRIPTORS, _MOST)
    )
    haul.context("capture.json", read_text(capture.path / "capture.json", _MOST))
    for gap in _gaps(capture):
        haul.gap(f"in the capture: {gap.get('part')}", str(gap.get("why")))
    return haul


def death_of(capture: Capture) -> Death:
    """The death as ``collect`` knows deaths."""
    return Death(
        wall=capture.wall,
        by="the capture",
        pid=capture.pid,
        tid=capture.number("crash", "tid"),
        boot_id=capture.boot_id,
        name=Path(capture.exe).name or None,
        signal=capture.signal,
        core=capture.core,
        exe=capture.copied_exe,
        symbols=(capture.path,),
    )


def _core_pid(capture: Capture) -> int | None:
    """As the core counts: in the process's own PID namespace."""
    return capture.number("crash", "ns_pid") or capture.pid


def _same_life(haul: Haul, who: Incarnation) -> None:
    """What the core says is of this life: of this boot, with this start."""
    haul.evidence = [
        item.model_copy(update={"incarnation": who}) if item.incarnation.pid == who.pid else item
        for item in haul.evidence
    ]


def _trace_only(haul: Haul, capture: Capture, who: Incarnation) -> None:
    """That it died by a signal is known even where nothing else was kept."""
    why = capture.refused or "the kernel gave none"
    haul.gap("the core", f"this capture holds none: {why}", "sysctl kernel.core_pattern; capture status")
    if capture.signal is not None:
        haul.facts(
            [
                to_evidence(
                    ExitFact(by="waitpid", signal=capture.signal),
                    id="capture-exit",
                    source="capture.json",
                    text=f"the kernel dumped core of PID {who.pid} for signal {capture.signal}",
                    trust=Trust.KERNEL,
                    wall=capture.wall,
                    incarnation=who,
                )
            ]
        )


def _settings(haul: Haul, capture: Capture, who: Incarnation) -> None:
    """Arguments as /proc showed them, secrets hidden by the crash path already."""
    told = read_json(capture.path / "settings.json")
    args = [word for word in _list(told, "arguments") if isinstance(word, str)]
    env = {
        name: value if isinstance(value, str) else ""
        for name, value in _table(told, "environment").items()
        if isinstance(name, str)
    }
    if args and "--sleep-idle-seconds" in " ".join(args) + " ".join(env):
        haul.facts([settings_evidence(args, env, haul.redactor, "the capture's settings.json", who)])


def _list(told: Mapping[str, Any], name: str) -> list[Any]:
    found = told.get(name)
    return found if isinstance(found, list) else []


def _table(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = told.get(name)
    return found if isinstance(found, dict) else {}


def _gaps(capture: Capture) -> list[Mapping[str, Any]]:
    return [gap for gap in _list(capture.told, "gaps") if isinstance(gap, dict)]
