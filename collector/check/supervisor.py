"""Who starts the server again, and how long it lets a dying one be: systemd, the container's engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.check.host import seconds_of
from collector.gather.machine import container_id
from collector.gather.tools import Ran, run

PROPERTIES = (
    *("Id", "LoadState", "FragmentPath", "Restart", "RestartUSec", "TimeoutStopUSec", "TimeoutAbortUSec"),
    *("WatchdogUSec", "LimitCORE", "LimitCORESoft", "LogRateLimitIntervalUSec", "LogRateLimitBurst"),
    *("LogNamespace", "StandardOutput", "StandardError", "LogLevelMax", "SyslogLevel", "WorkingDirectory"),
    *("MainPID", "NRestarts", "StartLimitBurst", "StartLimitIntervalUSec", "RestartPreventExitStatus"),
    "SuccessExitStatus",
)
ENGINES = ("docker", "podman")
DOCKER_STOP_SECONDS = 10.0  # docker stop, unless the container names its own
KUBERNETES_STOP_SECONDS = 30.0  # terminationGracePeriodSeconds, unless the pod names its own
_SESSION = ("session-", "user@", "init.scope")
Tool = Callable[[Sequence[str]], Ran]


@dataclass(frozen=True)
class UnitView:
    """``properties`` as ``systemctl show`` prints them; ``user``: of a user's manager."""

    name: str
    properties: dict[str, str] = field(default_factory=dict)
    user: bool = False

    def seconds(self, name: str) -> float | None:
        """A span; infinity where it has no end."""
        return seconds_of(self.properties.get(name, ""))

    def override(self, line: str) -> str:
        """Where a person sets ``line`` for this unit."""
        folder = "~/.config/systemd/user" if self.user else "/etc/systemd/system"
        return f"[Service] {line} in {folder}/{self.name}.d/override.conf"


@dataclass(frozen=True)
class Container:
    """``engine`` docker, podman or as the cgroup names it; ``read``: its settings are known."""

    engine: str
    id: str
    read: bool = False
    kubernetes: bool = False
    stop_seconds: float | None = None
    log_driver: str | None = None
    log_options: dict[str, str] = field(default_factory=dict)
    removed: bool = False  # --rm
    restart: str | None = None  # the policy's name
    restart_most: int = 0  # starts of on-failure:N; 0 without an end


def unit_name(cgroup: str) -> str | None:
    """The service whose cgroup it is in; None for a session or none."""
    path = next((line[3:] for line in cgroup.splitlines() if line.startswith("0::")), "")
    name = next((part for part in reversed(path.split("/")) if part.endswith(".service")), "")
    if not name or name.startswith(_SESSION) or not re.fullmatch(r"[\w:@.\\-]{1,255}", name):
        return None
    return name


def unit_of(cgroup: str, tool: Tool = run) -> UnitView | None:
    """The unit whose cgroup it is in, by its manager; None outside of systemd or when nobody can be asked."""
    name = unit_name(cgroup)
    if name is None:
        return None
    for user in (False, True):
        argv = ["systemctl", *(["--user"] if user else []), "show", "--no-pager"]
        ran = tool([*argv, f"--property={','.join(PROPERTIES)}", "--", name])
        pairs = (line.partition("=") for line in ran.out.decode("utf-8", "replace").splitlines())
        found = {key: value for key, equals, value in pairs if equals and key in PROPERTIES}
        if ran.ok and found.get("LoadState") not in (None, "not-found"):
            return UnitView(name, found, user)
    return None


def container_of(cgroup: str, tool: Tool = run) -> Container | None:
    """The container it runs in, with what its engine says of it."""
    id = container_id(cgroup)
    if id is None:
        return None
    kubernetes = "kubepods" in cgroup
    for engine in ENGINES:
        ran = tool([engine, "inspect", "--type", "container", id])
        if ran.ok:
            made = _inspected(engine, id, ran.out, kubernetes)
            if made is not None:
                return made
    engine = "kubernetes" if kubernetes else "libpod" if "libpod" in cgroup else "docker"
    return Container(engine, id[:12], kubernetes=kubernetes)


def _inspected(engine: str, id: str, out: bytes, kubernetes: bool) -> Container | None:
    try:
        said: Any = json.loads(out)[0]
        host, config = said.get("HostConfig") or {}, said.get("Config") or {}
        log = host.get("LogConfig") or {}
        options = {str(key): str(value) for key, value in (log.get("Config") or {}).items()}
        stop, policy = config.get("StopTimeout"), host.get("RestartPolicy") or {}
        most = policy.get("MaximumRetryCount")
        return Container(
            engine,
            id[:12],
            read=True,
            kubernetes=kubernetes,
            stop_seconds=float(stop) if isinstance(stop, (int, float)) else DOCKER_STOP_SECONDS,
            log_driver=str(log["Type"])[:40] if log.get("Type") else None,
            log_options=options,
            removed=host.get("AutoRemove") is True,
            restart=str(policy.get("Name") or "no")[:40],
            restart_most=most if isinstance(most, int) else 0,
        )
    except (ValueError, IndexError, KeyError, AttributeError, TypeError, RecursionError):
        return None
