"""From what was asked for to one subject: a death, or a living server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from collector.gather import units
from collector.gather.deaths import Death, Places, find_deaths
from collector.gather.machine import CGROUP
from collector.gather.servers import Server, demand_server, servers, servers_among
from collector.gather.wanted import Wanted

# Where deaths are looked for, by the name of the gap that says it could not be
SEARCHED = {"kept cores": "kept cores", "journal": "the journal", "kernel lines": "the kernel's lines"}
MAX_CGROUPS = 200  # of one unit: a router has one child process for each model, and no cgroup for it


@dataclass(frozen=True)
class Choice:
    """Deaths that fit, the newest first, or else the one living server; ``gaps``: what was not searched."""

    deaths: tuple[Death, ...] = ()
    server: Server | None = None
    gaps: tuple[Gap, ...] = ()


def choose(places: Places, wanted: Wanted) -> Choice:
    """Raises UserError when nothing fits, or what was named is no llama-server."""
    alive = _alive(wanted)
    if alive is not None:
        return Choice(server=alive)
    deaths, gaps = find_deaths(with_folders(places, wanted), wanted)
    if deaths:
        return Choice(tuple(deaths), gaps=tuple(gaps))
    if wanted.pid is not None:
        return Choice(server=demand_server(wanted.pid))
    living = in_unit(wanted.unit) if wanted.unit is not None else []
    if living and wanted.since is None and wanted.boot is None:
        return Choice(server=only(living, f"--unit {wanted.unit}"), gaps=tuple(gaps))
    raise _nothing(wanted, gaps)


def _alive(wanted: Wanted) -> Server | None:
    """The living server that a PID names: PIDs are used again, and a person names what runs now."""
    if wanted.pid is None or wanted.since is not None or wanted.boot is not None:
        return None
    found = servers_among([wanted.pid])
    return found[0] if found else None


def living(wanted: Wanted) -> Server:
    """The living server for a live look: it must be named. Raises UserError, with the servers there are."""
    if wanted.pid is not None:
        return demand_server(wanted.pid)
    if wanted.unit is not None:
        found = in_unit(wanted.unit)
        if not found:
            remedy = f"see systemctl status {wanted.unit}; or name the process: --pid P"
            raise UserError(
                "no llama-server runs in it that this user may look at",
                where=f"--unit {wanted.unit}",
                remedy=remedy,
            )
        return only(found, f"--unit {wanted.unit}")
    there = ", ".join(f"{one.pid} ({Path(one.exe).name})" for one in servers()[:10])
    remedy = (
        f"give --pid or --unit; running: {there}"
        if there
        else "give --pid or --unit; none is running that this user may look at"
    )
    raise UserError("which server is not said", where="collect --live", remedy=remedy)


def only(found: Sequence[Server], where: str) -> Server:
    """The one server. Raises UserError for several."""
    if len(found) == 1:
        return found[0]
    pids = ", ".join(str(one.pid) for one in found[:10])
    raise UserError(
        f"{len(found)} llama-servers run there (a router and its children?)",
        where=where,
        remedy=f"give --pid, one of {pids}",
    )


def in_unit(name: str) -> list[Server]:
    """Living servers in the unit's cgroup, else its main process."""
    unit, _ = units.read_unit(name)
    path = unit.properties.get("ControlGroup", "")
    pids = _pids_below(CGROUP / path.lstrip("/")) if path and ".." not in path else []
    main = [unit.main_pid] if unit.main_pid else []
    return servers_among(pids or main)


def _pids_below(folder: Path) -> list[int]:
    found: list[int] = []
    for number, (at, folders, _) in enumerate(os.walk(folder)):
        if number >= MAX_CGROUPS:
            folders.clear()
        try:
            found += [int(word) for word in (Path(at) / "cgroup.procs").read_text().split()]
        except (OSError, ValueError):
            continue
    return found


def with_folders(places: Places, wanted: Wanted) -> Places:
    """Where a relative core_pattern leaves cores: the unit's folder, and those of servers running now."""
    folders = list(places.folders)
    if wanted.unit is not None:
        unit, _ = units.read_unit(wanted.unit)
        folders += [unit.folder] if unit.folder else []
    for server in servers():
        try:
            folders.append(Path(os.readlink(f"/proc/{server.pid}/cwd")))
        except OSError:
            continue
    return replace(places, folders=tuple(dict.fromkeys(folders)))


def _nothing(wanted: Wanted, gaps: Sequence[Gap]) -> UserError:
    missed = {gap.what: gap.why for gap in gaps}
    looked = ", ".join(words for name, words in SEARCHED.items() if name not in missed)
    told = f"no death of a llama-server was found ({wanted.words}); searched: {looked}"
    if not missed:
        remedy = "give its log or core as a file, or --since with an earlier time"
        return UserError(told, where="this host", remedy=remedy)
    left = ", ".join(f"{SEARCHED.get(name, name)} ({why})" for name, why in missed.items())
    remedy = f"not searched: {left}; run it with sudo, or give the evidence as files"
    return UserError(told, where="this host", remedy=remedy)
