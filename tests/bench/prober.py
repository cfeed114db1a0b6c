"""Asks one server as the agent does, in a process of its own: ``python -m tests.bench.prober PORT ROUTE,…``.

Each line on standard input is a number of seconds between two rounds, 0 for silence. It answers ``done``
when the setting holds, so that a measurement knows which rounds it is in.
"""

from __future__ import annotations

import random
import select
import sys
import time

from collector.sources.probes import probe_health, probe_metrics, probe_props
from collector.sources.target import Target

ASK = {"health": probe_health, "props": probe_props, "metrics": probe_metrics}


def main() -> None:
    """Until standard input ends."""
    target, routes = Target(int(sys.argv[1])), sys.argv[2].split(",")
    every, due, asked = 0.0, 0.0, 0
    while True:
        wait = max(0.0, due - time.monotonic()) if every else None
        if select.select([sys.stdin], [], [], wait)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            every = float(line)
            due = time.monotonic() + every * random.random()
            print("done", asked, flush=True)
            continue
        due += every
        for route in routes:
            ASK[route](target)
            asked += 1


if __name__ == "__main__":
    main()
