"""Does the server say enough, and are its words kept past the crash?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from collector.check.host import Conf, seconds_of
from collector.check.model import LIVE, LOG, Finding, Level
from collector.check.pattern import SYSTEMD
from collector.check.rules_place import MEMORY_SYSTEMS, system_at
from collector.check.scene import Scene
from collector.sources.process import option

VERBOSITY = ("-lv", "--verbosity", "--log-verbosity")
SILENT, LOUD = ("--log-disable",), ("-v", "--verbose", "--log-verbose")
# common/log.h: 1 error, 2 warning, 3 info (the default), 4 trace, 5 debug. The sleep lines are info.
SLEEP_LINES, EVERY_REQUEST = 3, 4
JOURNALD = "/etc/systemd/journald.conf.d/99-llama-server.conf"
QUIET_LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "0", "1", "2", "3", "4", "5")
RATE_INTERVAL, RATE_BURST = "30s", "10000"  # journald's defaults
ENOUGH_LINES = 1000  # a second: some two hundred requests a second at verbosity 4
NEVER = " (changes nothing else; restart the server)"


def log_rules(scene: Scene) -> Iterator[Finding]:
    """What it prints, then where that goes."""
    yield from _said(scene)
    yield from _log_file(scene)
    yield from _destination(scene)


def _said(scene: Scene) -> Iterator[Finding]:
    args, env = list(scene.subject.args), scene.subject.env
    if any(word in args for word in SILENT):
        why = "no line of it exists: neither the sleep transitions nor an abort's surroundings"
        yield Finding("log-disabled", LOG, Level.LOST, "--log-disable", why, "remove --log-disable" + NEVER)
        return
    level = verbosity(args, env)
    present = "the default (3)" if level is None else str(level)
    if level is not None and level < SLEEP_LINES:
        why = "going to sleep and waking are said at level 3: without them sleep cannot be blamed or cleared"
        yield Finding(
            "verbosity", LOG, Level.RISK, f"verbosity {level} hides the sleep lines", why, "-lv 3", present
        )
    elif (level is None or level < EVERY_REQUEST) and not scene.subject.server.hosted:
        what, why = (
            "requests are not named in its log",
            "the route and time of the last request come from a core or a proxy only",
        )
        yield Finding("verbosity", LOG, Level.NOTE, what, why, "-lv 4 (several lines a request)", present)


def verbosity(args: list[str], env: dict[str, str]) -> int | None:
    """The threshold it was told; None for the default."""
    if any(word in args for word in LOUD):
        return 1 << 30
    text = option(args, VERBOSITY) or env.get("LLAMA_ARG_LOG_VERBOSITY") or env.get("LLAMA_LOG_VERBOSITY")
    return int(text) if text and text.lstrip("-").isdigit() and len(text) < 12 else None


def _log_file(scene: Scene) -> Iterator[Finding]:
    path = option(list(scene.subject.args), ("--log-file",)) or scene.subject.env.get("LLAMA_ARG_LOG_FILE")
    if path is None:
        return
    shown = path if path.startswith("/") else f"{scene.subject.cwd or '.'}/{path}"
    why = "the server opens its log file for writing from the start: a restart empties it"
    change = "keep its standard error as well (StandardError=journal), or name the file anew at each start"
    yield Finding(
        "log-file", LOG, Level.RISK, f"a restart empties {shown}", why, change, f"--log-file {path}"
    )
    yield from _in_memory(scene, shown)


def _in_memory(scene: Scene, path: str) -> Iterator[Finding]:
    system = system_at(scene.subject.mounts, path)
    if system in MEMORY_SYSTEMS:
        why = "a reboot loses it, and with it what led to the death of the host"
        yield Finding("log-in-memory", LOG, Level.RISK, f"{path} is on a {system}", why, "a path on a disk")


def _destination(scene: Scene) -> Iterator[Finding]:
    targets = [target for target in scene.subject.outputs if target]
    if not targets:
        why = "whether its words are kept is not known"
        change = f"sudo ls -l /proc/{scene.subject.server.pid}/fd/2"
        yield Finding(
            "output-unread", LOG, Level.UNREAD, "where its output goes could not be read", why, change
        )
        return
    error = targets[-1]
    if error == "/dev/null":
        why = "abort messages and backtraces are written to standard error even with a log file"
        change = scene.unit.override("StandardError=journal") if scene.unit else "do not send 2> to /dev/null"
        yield Finding("output", LOG, Level.LOST, "its standard error goes to /dev/null", why, change, error)
    elif error.startswith(("/dev/pts/", "/dev/tty", "/dev/console")):
        why = "what a terminal has scrolled away nobody can read again"
        yield Finding(
            "output",
            LOG,
            Level.RISK,
            "its standard error is a terminal",
            why,
            "2>> server.log, or a unit",
            error,
        )
    elif error.startswith("socket:"):
        yield from _journal(scene)
    elif error.startswith("pipe:"):
        yield from _pipe(scene)
    elif error.startswith("/"):
        yield from _file(scene, error)


def _file(scene: Scene, path: str) -> Iterator[Finding]:
    if path.endswith(" (deleted)"):
        why = "it was rotated away without the server being told: its words now go to a file without a name"
        change = "copytruncate in its logrotate file, then restart it"
        yield Finding(
            "output", LOG, Level.LOST, f"{path.removesuffix(' (deleted)')} was removed", why, change, path
        )
        return
    told = scene.unit.properties.get("StandardError", "") if scene.unit else ""
    if told.startswith(("truncate:", "file:")):
        line = f"StandardError=append:{path}"
        change = scene.unit.override(line) if scene.unit else line
        why = "each start writes over what the life before has said"
        yield Finding(
            "output", LOG, Level.RISK, f"a restart writes over {PurePosixPath(path).name}", why, change, told
        )
    yield from _in_memory(scene, path)


def _journal(scene: Scene) -> Iterator[Finding]:
    if scene.unit is None:
        what, why = (
            "its standard error is a socket",
            "that of the journal if systemd started it; no unit was found",
        )
        yield Finding("output", LOG, Level.NOTE, what, why)
        return
    space = scene.unit.properties.get("LogNamespace", "")
    conf = scene.host.conf(f"journald@{space}.conf" if space else "journald.conf", "Journal")
    yield from _kept(scene, conf, space)
    yield from _rate(scene, conf)
    for name, now in (
        ("MaxLevelStore", conf.get("MaxLevelStore", "debug").value),
        ("LogLevelMax", scene.unit.properties.get("LogLevelMax", "")),
    ):
        if now in QUIET_LEVELS:
            why = "a server's lines arrive at level info and are dropped"
            change = (
                scene.unit.override("LogLevelMax=info")
                if name == "LogLevelMax"
                else f"{name}=info in {JOURNALD}"
            )
            yield Finding(
                "journal-level",
                LOG,
                Level.LOST,
                f"{name}={now} drops its lines",
                why,
                change,
                f"{name}={now}",
            )


def _kept(scene: Scene, conf: Conf, space: str) -> Iterator[Finding]:
    storage = conf.get("Storage", "auto" if not space else "persistent")
    folder = scene.host.exists("var/log/journal")
    change = (
        f"Storage=persistent in /etc/systemd/{conf.name}.d/99-llama-server.conf, "
        "then systemctl restart systemd-journald"
    )
    if storage.value == "none":
        yield Finding(
            "journal",
            LOG,
            Level.LOST,
            "journald keeps nothing",
            "Storage=none drops every line",
            change,
            str(storage),
        )
    elif storage.value == "volatile" or (storage.value == "auto" and not folder):
        why = "it stands in /run: a reboot, planned or by a crash of the host, loses it"
        present = f"Storage={storage}" + ("" if folder else ", /var/log/journal is missing")
        yield Finding("journal", LOG, Level.RISK, "the journal is kept in memory only", why, change, present)


def _rate(scene: Scene, conf: Conf) -> Iterator[Finding]:
    assert scene.unit is not None  # noqa: S101 - asked by the caller
    span, burst = conf.get("RateLimitIntervalSec", RATE_INTERVAL), conf.get("RateLimitBurst", RATE_BURST)
    seconds, most, present = seconds_of(span.value), burst.value, f"{span}, RateLimitBurst={burst}"
    # 0 in a unit is what systemctl shows for "not set", and is not handed on to journald.
    own = scene.unit.seconds("LogRateLimitIntervalUSec"), scene.unit.properties.get("LogRateLimitBurst", "")
    if own[0] and own[1] not in ("", "0"):
        seconds, most, present = (
            own[0],
            own[1],
            f"{own[0]:g}s, LogRateLimitBurst={own[1]} ({scene.unit.name})",
        )
    if not seconds or not most.isdigit() or most == "0" or int(most) >= ENOUGH_LINES * seconds:
        return
    level = verbosity(list(scene.subject.args), scene.subject.env)
    loud = level is not None and level >= EVERY_REQUEST
    what = f"journald drops its lines above {most} in {seconds:g} s"
    why = "a burst before a crash loses just the lines that matter"
    why += "; verbosity 4 prints several a request" if loud else ""
    change = scene.unit.override("LogRateLimitIntervalSec=1s and LogRateLimitBurst=100000")
    yield Finding(
        "journal-rate", LOG, Level.RISK if loud else Level.NOTE, what, why, change, f"interval {present}"
    )


def _pipe(scene: Scene) -> Iterator[Finding]:
    container = scene.container
    if container is None:
        why = "who reads it, and for how long it is kept, is not known"
        yield Finding(
            "output", LOG, Level.NOTE, "its standard error is a pipe", why, "see its reader's settings"
        )
        return
    if not container.read:
        if container.kubernetes:
            what = "the kubelet keeps 10 MiB of a container's log, and the container before only"
            why = "after a second restart the log of the crash is gone, unless something ships it"
            yield Finding(
                "log-driver", LOG, Level.NOTE, what, why, "containerLogMaxSize in the kubelet's configuration"
            )
            return
        what, why = "the container's log settings were not read", "whether its words are kept is not known"
        yield Finding(
            "log-driver", LOG, Level.UNREAD, what, why, f"sudo {container.engine} inspect {container.id}"
        )
        return
    yield from _driver(scene)


def _driver(scene: Scene) -> Iterator[Finding]:
    container = scene.container
    assert container is not None  # noqa: S101 - asked by the caller
    driver, options = container.log_driver or "unknown", container.log_options
    # Only these: the options of other drivers hold addresses and tokens.
    shown = [f"{key}={options[key]}" for key in ("max-size", "max-file", "mode") if key in options]
    present = ", ".join([f"log driver {driver}", *shown])
    if driver == "none":
        why = "no line of the server is kept"
        yield Finding(
            "log-driver",
            LOG,
            Level.LOST,
            "log driver none",
            why,
            "logging: driver: local in compose.yaml",
            present,
        )
    elif driver == "json-file" and "max-size" not in options:
        why = "a full disk is where logs and cores end"
        change = "log-opts max-size and max-file in /etc/docker/daemon.json"
        yield Finding("log-driver", LOG, Level.NOTE, "its log grows without bound", why, change, present)
    if container.removed and driver in ("json-file", "local", "k8s-file"):
        why = "the engine removes the log with the container"
        yield Finding(
            "log-removed",
            LOG,
            Level.RISK,
            "the container is removed when it ends (--rm)",
            why,
            "leave --rm out, or log driver journald",
            present,
        )


def live_rules(scene: Scene) -> Iterator[Finding]:
    """Could a hang be looked at while it hangs?"""
    from analyzers.stacks.confine import find_tool

    if find_tool("eu-stack") is None:
        why = "it unwinds live snapshots and cores"
        change = "apt-get install --no-install-recommends elfutils"
        yield Finding("eu-stack", LIVE, Level.RISK, "eu-stack is not installed", why, change)
    scope = (scene.host.sysctl("kernel/yama/ptrace_scope") or "").strip()
    present, change = (
        f"kernel.yama.ptrace_scope = {scope}",
        "kernel.yama.ptrace_scope = 1 in /etc/sysctl.d/60-cores.conf",
    )
    if scope == "3":
        what, why = (
            "no process may be looked into until the next boot",
            "a hang gives no stacks; cores are not affected",
        )
        yield Finding("ptrace", LIVE, Level.RISK, what, why, change + ", then reboot", present)
    elif scope in ("1", "2"):
        what, why = "only root takes live stacks", "run llama-blackbox collect --live with sudo"
        yield Finding("ptrace", LIVE, Level.NOTE, what, why, present=present)
    sort = scene.host.sysctl("kernel/core_sort_vma")
    if (
        sort is not None
        and sort.strip() == "0"
        and scene.pattern is not None
        and scene.pattern.handler == SYSTEMD
    ):
        what, why = "a cut core may lack the stacks", "with core_sort_vma = 1 small maps are written first"
        yield Finding(
            "sort-vma",
            LIVE,
            Level.NOTE,
            what,
            why,
            "kernel.core_sort_vma = 1 in /etc/sysctl.d/60-cores.conf",
            "0",
        )
