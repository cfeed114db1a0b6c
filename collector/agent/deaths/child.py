"""Judges one death: ``python -m collector.agent.deaths.child FOLDER`` with a Request as JSON on its input.

It leaves FOLDER/bundle.tar.zst and FOLDER/report.json. Limited before it reads anything.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

MEMORY = 3 << 30  # address space: gdb on a large binary takes 1.2 GB
CPU_SECONDS = 120
NICE = 10
BUNDLE, REPORT = "bundle.tar.zst", "report.json"
MAX_REQUEST = 64 << 20


def limit() -> None:
    """Give way to everything else, leave no core, take no more than a large binary needs."""
    os.nice(NICE)
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, CPU_SECONDS),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))


def judge(folder: Path, said: bytes) -> int:
    """Gather, write the bundle, triage it; the exit status of triage. Raises UserError for a full disk."""
    from pydantic import TypeAdapter

    from analyzers.cli.main import main
    from collector.agent.deaths.gathering import gather
    from collector.agent.deaths.request import Request

    request = TypeAdapter(Request).validate_json(said)
    room = folder / "room"
    room.mkdir(mode=0o700)
    gather(request, room).write(folder / BUNDLE)
    with (folder / REPORT).open("wb") as report:
        os.dup2(report.fileno(), sys.stdout.fileno())
        return main(["triage", "--json", str(folder / BUNDLE)])


if __name__ == "__main__":
    limit()
    sys.exit(judge(Path(sys.argv[1]), sys.stdin.buffer.read(MAX_REQUEST)))
