"""Scenes for the rules: a host made of files below a folder, a server made of figures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analyzers.contracts.evidence import Incarnation
from collector.check.host import Host
from collector.check.image import Image
from collector.check.model import Finding, Readiness
from collector.check.pattern import read_pattern
from collector.check.readiness import assess
from collector.check.scene import Scene
from collector.check.subject import UNLIMITED, Subject, Who
from collector.check.supervisor import UnitView
from collector.gather.servers import Server
from collector.gather.tools import Ran

SYSTEMD_PATTERN = "|/usr/lib/systemd/systemd-coredump %P %u %g %s %t %c %h"
GIB = 1 << 30


def host(root: Path, files: Mapping[str, str] | None = None, *, pattern: str = SYSTEMD_PATTERN) -> Host:
    """A host whose core_pattern names systemd's handler, which is there with its socket."""
    made = {
        "proc/sys/kernel/core_pattern": pattern + "\n",
        "proc/sys/kernel/core_uses_pid": "0\n",
        "proc/sys/kernel/core_pipe_limit": "16\n",
        "proc/sys/fs/suid_dumpable": "2\n",
        "run/systemd/coredump": "",
        "run/systemd/system/here": "",
        "usr/lib/systemd/systemd-coredump": "program",
        "var/log/journal/here": "",
        **(files or {}),
    }
    for name, text in made.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "usr/lib/systemd/systemd-coredump").chmod(0o755)
    return Host(root)


def subject(**changes: Any) -> Subject:
    """A dumpable native server of one GiB without a limit, whose words go to the journal."""
    server = Server(
        os.getpid(), "/usr/bin/llama-server", "/usr/bin/llama-server", False, Incarnation(pid=os.getpid())
    )
    made = Subject(
        server,
        args=("/usr/bin/llama-server", "-m", "/m.gguf", "-lv", "4"),
        limit=UNLIMITED,
        filter_bits=0x33,
        dumpable="user",
        who=Who(os.geteuid(), frozenset({os.getegid()}), False),
        image=Image(GIB, GIB // 2, anonymous=GIB // 2, largest=GIB // 4),
        outputs=("socket:[1]", "socket:[1]"),
        cwd="/srv",
    )
    return replace(made, **changes)


def unit(**properties: str) -> UnitView:
    """A unit that restarts, with systemd's defaults."""
    return UnitView(
        "llama.service",
        {
            "Restart": "on-failure",
            "RestartUSec": "100ms",
            "TimeoutStopUSec": "1min 30s",
            "TimeoutAbortUSec": "1min 30s",
            "WatchdogUSec": "0",
            "LogRateLimitIntervalUSec": "1s",
            "LogRateLimitBurst": "100000",
            **properties,
        },
    )


def scene(made: Host, one: Subject | None = None, **changes: Any) -> Scene:
    """Server and host together; no unit and no container unless given."""
    return replace(Scene(made, one or subject(), pattern=read_pattern(made)), **changes)


def found(made: Scene) -> dict[str, Finding]:
    """Findings by id."""
    return {finding.id: finding for finding in assess(made).findings}


def readiness(made: Scene) -> Readiness:
    return assess(made)


def answering(answers: Mapping[str, bytes]) -> Any:
    """A runner of tools that knows the answers of a few."""

    def run(argv: Any) -> Ran:
        said = answers.get(argv[0])
        return Ran(outcome="missing") if said is None else Ran(said, status=0)

    return run
