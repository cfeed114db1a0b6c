"""Would a crash of this server be followed by a start, by whom, and would that really happen?"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from collector.check.model import Finding, Level
from collector.check.supervisor import Container, UnitView
from collector.sources.procfs import GoneError, Process

RESTART = "restart"
YES, NO, NEXT_REQUEST, UNKNOWN = "yes", "no", "at-next-request", "unknown"
SIGNALS = {"SIGSEGV": "11", "SIGABRT": "6", "SIGBUS": "7"}
# systemd.service(5), the table of Restart=: which settings act on a death by an unclean signal.
ON_SIGNAL = ("always", "on-failure", "on-abnormal", "on-abort")
# Programs that start their children again when they are told to, in files of their own.
SUPERVISORS = re.compile(
    r"supervisord|runsv|s6-supervise|supervise|monit|llama-swap|PM2.*|pm2|circusd|tini|dumb-init|ollama|node"
)
SHELLS = re.compile(r"-?(?:ba|da|z|k|fi)?sh|tmux.*|screen|sshd.*|login|su|sudo|systemd|init|nohup")


@dataclass(frozen=True)
class Restart:
    """``by``: systemd | docker | podman | kubernetes | router | another | nobody; ``fires``: yes | no |
    at-next-request | unknown; ``finding`` says it in words."""

    by: str
    policy: str
    fires: str
    finding: Finding


def restart_of(
    role: str,
    unit: UnitView | None,
    container: Container | None,
    pid: int,
    *,
    inner_pid: int | None = None,
    parent: int = 0,
    sleep: int | None = None,
    unit_named: str | None = None,
) -> Restart:
    """``parent`` is its parent's PID; ``unit_named`` the unit of its cgroup when nobody could be asked."""
    if role == "child":
        return _child()
    if container is not None:
        return _contained(container, inner_pid)
    if unit is not None:
        return _by_systemd(unit, pid, parent, sleep)
    if unit_named is not None:
        what = f"{unit_named}: systemd could not be asked what it does after a crash"
        see = f"systemctl show -p Restart,RestartUSec,StartLimitBurst {unit_named}"
        return _made("systemd", "unknown", UNKNOWN, Level.UNREAD, what, "its Restart= is not known", see)
    return _alone(parent)


def _made(
    by: str, policy: str, fires: str, level: Level, what: str, why: str, change: str | None = None
) -> Restart:
    return Restart(by, policy, fires, Finding(RESTART, RESTART, level, what, why, change, policy))


def _child() -> Restart:
    what = "after a crash its router starts it again at the next request for its model, not before"
    why = "the router prints status 1 for every signal, its unit does not fail, and nobody is told"
    return _made("router", "router", NEXT_REQUEST, Level.NOTE, what, why)


def _by_systemd(unit: UnitView, pid: int, parent: int, sleep: int | None) -> Restart:
    policy = f"Restart={unit.properties.get('Restart') or 'no'}"
    change = unit.override("Restart=on-failure")
    word = policy.partition("=")[2]
    if word not in ON_SIGNAL:
        why = "a crash ends the service until somebody starts it"
        return _made("systemd", policy, NO, Level.RISK, "systemd does not start it again", why, change)
    held = _prevented(unit, word)
    if held is not None:
        why = f"with {held} systemd takes that end for none that a restart follows"
        what = f"{policy} does not act on a crash"
        return _made("systemd", policy, NO, Level.RISK, what, why, f"take the signals out of {held}")
    main = unit.properties.get("MainPID", "")
    if main.isdigit() and int(main) and int(main) != pid:
        what = f"the unit's main process is {main}, not the server"
        child = "its child" if parent == int(main) else "not its child"
        why = f"systemd restarts only when that one ends; the server is {child}"
        change = unit.override("ExecStart= the server itself, or exec it at the end of the script")
        return _made("systemd", policy, UNKNOWN, Level.RISK, what, why, change)
    return _made("systemd", policy, YES, *_limits(unit, sleep))


def _prevented(unit: UnitView, word: str) -> str | None:
    """A list of ends that holds the signals of a crash: as names or numbers."""
    lists = ["RestartPreventExitStatus", *(["SuccessExitStatus"] if word != "always" else [])]
    for name in lists:
        words = set(unit.properties.get(name, "").replace(",", " ").split())
        if words & {*SIGNALS, *(one.removeprefix("SIG") for one in SIGNALS)}:
            return name
    return None


def _limits(unit: UnitView, sleep: int | None) -> tuple[Level, str, str, str | None]:
    pause = unit.seconds("RestartUSec") or 0.0
    burst, span = unit.properties.get("StartLimitBurst", ""), unit.seconds("StartLimitIntervalUSec")
    what = f"systemd starts it again {pause:g} s after its end"
    if not burst.isdigit() or not int(burst) or not span or span == float("inf"):
        return Level.NOTE, what, "no start limit ends that", None
    slow = int(burst) * max(pause, float(sleep) if sleep is not None and sleep > 0 else 0.0) > span
    why = f"after {burst} starts in {span:g} s it stays down (StartLimitBurst)"
    if slow:
        return Level.NOTE, what, f"{why}; crashes of sleep come too rarely for that", None
    change = unit.override(f"RestartSec={int(span / int(burst)) + 1}")
    return Level.NOTE, what, f"{why}: crashes closer than {span / int(burst):.3g} s end the service", change


def _contained(container: Container, inner: int | None) -> Restart:
    engine = "kubernetes" if container.kubernetes else container.engine
    if container.kubernetes:
        what = "the kubelet starts the container again, by the pod's restartPolicy (Always unless set)"
        why = "the pod's own policy was not read; each crash doubles the pause, up to 5 min"
        see = "kubectl get pod NAME -o jsonpath={.spec.restartPolicy}"
        return _made(engine, "not read", UNKNOWN, Level.UNREAD, what, why, see)
    if not container.read or container.restart is None:
        what, why = f"{engine} could not be asked for the container's restart policy", "the default is none"
        see = f"{engine} inspect -f '{{{{.HostConfig.RestartPolicy.Name}}}}' {container.id}"
        return _made(engine, "not read", UNKNOWN, Level.UNREAD, what, why, see)
    policy = f"--restart {container.restart}"
    if container.restart in ("no", ""):
        change = f"{engine} update --restart on-failure {container.id}"
        what, why = f"{engine} does not start it again", "a crash ends the container until somebody starts it"
        return _made(engine, policy, NO, Level.RISK, what, why, change)
    if inner is not None and inner != 1:
        what = "it is not the container's first process"
        why = f"{engine} acts when process 1 of the container ends: that one must end with the server"
        return _made(engine, policy, UNKNOWN, Level.RISK, what, why, "let process 1 exec the server")
    most = f", {container.restart_most} times at most" if container.restart_most else ""
    what, why = f"{engine} starts it again{most}", "the pause doubles with each crash from 100 ms up to 1 min"
    return _made(engine, policy, YES, Level.NOTE, what, why)


def _alone(parent: int) -> Restart:
    name = ""
    with suppress(GoneError, OSError), Process(parent) as process:
        name = process.read("comm").decode("utf-8", "replace").strip()
    if parent in (0, 1) or SHELLS.fullmatch(name):
        what, why = "nobody starts it again", f"no unit, no container; its parent is {name or 'gone'}"
        change = "run it from a systemd unit with Restart=on-failure"
        return _made("nobody", "none", NO, Level.RISK, what, why, change)
    known = " (a supervisor)" if SUPERVISORS.fullmatch(name) else ""
    what = f"whether its parent {name or parent}{known} starts it again is not known"
    why, see = "what it was told stands in its own files", f"ps -o args= -p {parent}"
    return _made("another", "not read", UNKNOWN, Level.UNREAD, what, why, see)
