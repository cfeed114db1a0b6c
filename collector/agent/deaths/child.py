"""Triage as the agent runs it: ``python -m collector.agent.deaths.child INPUT…``, limited beforehand."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress

MEMORY = 3 << 30  # address space: gdb on a large binary takes 1.2 GB
CPU_SECONDS = 120
NICE = 10


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


if __name__ == "__main__":
    limit()
    from analyzers.cli.main import main

    sys.exit(main(["triage", "--json", *sys.argv[1:]]))
