"""Where a process runs, by its cgroup's path: the systemd unit, the container and whose it is.

Shapes: systemd's cgroup-util (cg_path_get_unit, cg_unescape), docker and podman with both cgroup drivers,
containerd and CRI-O under Kubernetes, LXC, systemd-nspawn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from collector.discovery.model import Place
from collector.sources.procfs import Process

MAX_PATH = 4096  # characters of a cgroup's path that are looked at
SHOWN_ID = 64  # characters of a container's id: docker's are 64 hex digits
_HEX = "[0-9a-f]{12,64}"
_ENGINES = (
    ("docker", re.compile(rf"docker-({_HEX})\.scope")),
    ("podman", re.compile(rf"libpod-(?:payload-)?({_HEX})(?:\.scope)?")),
    ("containerd", re.compile(rf"(?:.*[:-])?cri-containerd[-:]({_HEX})(?:\.scope)?")),
    ("cri-o", re.compile(rf"(?:.*[:-])?crio[-:]({_HEX})(?:\.scope)?")),
    ("lxc", re.compile(r"lxc\.payload\.([\w.-]{1,64})")),
    ("nspawn", re.compile(r"machine-([\w.\\:-]{1,64})\.scope")),
    ("nspawn", re.compile(r"systemd-nspawn@([\w.\\:-]{1,64})\.service")),
)
# cgroupfs driver: the parent folder names the engine
_FOLDERS = {"docker": "docker", "lxc": "lxc", "crio": "cri-o", "libpod_parent": "podman"}
_UNIT = re.compile(r"[\w:@.\\-]{1,255}\.(?:service|scope)")
_INVOCATION = re.compile(r"[0-9a-f]{32}")
_NO_SERVER = re.compile(r"session-\w+\.scope|init\.scope|user@\d+\.service")


def read_place(process: Process) -> Place:
    """By /proc/PID/cgroup and status; empty where they may not be read. Raises GoneError."""
    try:
        groups = process.read("cgroup").decode("utf-8", "replace")
        status = process.read("status")
    except OSError:
        return Place()
    place = place_of(groups, inner_pid(status))
    return place if place.unit is None else replace(place, invocation=_invocation(process))


def _invocation(process: Process) -> str | None:
    """The manager puts it into the environment of what it starts; a server's children inherit it."""
    try:
        variables = process.read("environ").split(b"\0")
    except OSError:
        return None
    told = next((each[14:] for each in variables if each.startswith(b"INVOCATION_ID=")), b"").decode(
        "ascii", "replace"
    )
    return told if _INVOCATION.fullmatch(told) else None


def place_of(groups: str, inner: int | None = None) -> Place:
    """``groups``: the text of /proc/PID/cgroup, of version 1 or 2 or both."""
    path = cgroup_path(groups)
    parts = [part for part in path.split("/") if part]
    at, runtime, container = _container(parts)
    unit = _unit(parts[:at])
    if runtime == "nspawn":
        unit = _unit([part for part in parts[at + 1 :] if part != "payload"])
    shown = "".join(char if char.isprintable() else "?" for char in path)
    return Place(unit, container, runtime, shown or None, inner)


def cgroup_path(groups: str) -> str:
    """The unified hierarchy's path, else that of systemd's own, else the first that tells of anything."""
    rows = [line.split(":", 2) for line in groups.splitlines()]
    paths = {row[1]: row[2][:MAX_PATH].removesuffix(" (deleted)") for row in reversed(rows) if len(row) == 3}
    for wanted in (paths.get(""), paths.get("name=systemd"), *paths.values()):
        if wanted and wanted != "/":
            return wanted
    return "/" if paths else ""


def _container(parts: Sequence[str]) -> tuple[int, str | None, str | None]:
    """(index of the part that names it, its runtime, its id); without one the index is the end."""
    for at, part in enumerate(parts):
        for engine, shape in _ENGINES:
            found = shape.fullmatch(part)
            if found is not None:
                return at, engine, found[1][:SHOWN_ID]
        folder = parts[at - 1] if at else ""
        if folder in _FOLDERS and (folder == "lxc" or re.fullmatch(_HEX, part)):
            return at, _FOLDERS[folder], part[:SHOWN_ID]
        if re.fullmatch(_HEX, part) and parts[0].startswith("kubepods"):
            return at, "kubernetes", part[:SHOWN_ID]
    return len(parts), None, None


def _unit(parts: Sequence[str]) -> str | None:
    """The unit of these parts, a user's own below that of its manager."""
    names = [part[1:] if part.startswith("_") else part for part in parts]  # cg_unescape
    found = [name for name in names if _UNIT.fullmatch(name)]
    if found and found[0].startswith("user@") and len(found) > 1:
        found = found[1:]
    return found[0] if found and not _NO_SERVER.fullmatch(found[0]) else None


def inner_pid(status: bytes) -> int | None:
    """The process's number in its own PID namespace, None where that is the one it is looked at from."""
    for line in status.splitlines():
        if line.startswith(b"NSpid:"):
            words = line.split()[1:]
            return int(words[-1]) if len(words) > 1 and words[-1].isdigit() else None
    return None
