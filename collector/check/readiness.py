"""Puts one server's evidence readiness together: reads, then every rule."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from collector.check.host import Host
from collector.check.model import Readiness
from collector.check.pattern import read_pattern
from collector.check.rules_core import core_rules
from collector.check.rules_log import live_rules, log_rules
from collector.check.rules_place import place_rules
from collector.check.rules_time import time_rules
from collector.check.scene import Scene
from collector.check.subject import Subject, read_subject
from collector.check.supervisor import Tool, container_of, unit_of
from collector.gather.servers import Server
from collector.gather.tools import run
from collector.sources.process import model_files

# The first PID namespace has a number of its own (linux/proc_ns.h, PROC_PID_INIT_INO).
FIRST_PID_NAMESPACE = "pid:[4026531836]"


def read_scene(server: Server, *, host: Host | None = None, servers: int = 1, tool: Tool = run) -> Scene:
    """All that is known of one server. Raises GoneError when it ends meanwhile."""
    return scene_of(read_subject(server), host=host, servers=servers, tool=tool)


def scene_of(subject: Subject, *, host: Host | None = None, servers: int = 1, tool: Tool = run) -> Scene:
    """The same of a server that was read already."""
    host = host or Host()
    return Scene(
        host,
        subject,
        pattern=read_pattern(host),
        unit=unit_of(subject.cgroup, tool),
        container=container_of(subject.cgroup, tool),
        servers=servers,
        first_namespaces=_first_namespaces(),
        model_bytes=_model_bytes(subject),
    )


def assess(scene: Scene) -> Readiness:
    """Every rule over one scene."""
    rules = (core_rules, place_rules, time_rules, log_rules, live_rules)
    subject = scene.subject
    return Readiness(
        subject.server.pid,
        subject.name,
        scene.unit.name if scene.unit else None,
        f"{scene.container.engine} {scene.container.id}" if scene.container else None,
        scene.pattern.where if scene.pattern else "nobody knows where",
        scene.expected,
        tuple(finding for rule in rules for finding in rule(scene)),
    )


def check_cores(servers: Sequence[Server], *, host: Host | None = None, tool: Tool = run) -> list[Readiness]:
    """The readiness of each server that still lives."""
    from collector.sources.procfs import GoneError

    found = []
    for server in servers:
        try:
            found.append(assess(read_scene(server, host=host, servers=len(servers), tool=tool)))
        except GoneError:
            continue
    return found


def _first_namespaces() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") == FIRST_PID_NAMESPACE
    except OSError:
        return False


def _model_bytes(subject: Subject) -> int | None:
    """Bytes of the model files that its command line names."""
    if subject.server.hosted:
        return None
    sizes = []
    for path in model_files(list(subject.args), subject.env):
        try:
            sizes.append(os.stat(subject.inside(path)).st_size)
        except OSError:
            continue
    return sum(sizes) or None


def at(scene: Scene, root: Path) -> Scene:
    """The same server on a host whose settings stand below ``root``."""
    host = Host(root)
    return replace(scene, host=host, pattern=read_pattern(host))
