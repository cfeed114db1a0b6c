"""How long each tool stops a living process, measured side by side in one run.

Each stop is seen from outside, by the state letters of its threads (to within half a millisecond); our own
is timed from inside too. Not part of any verb: ``python -m collector.actions.stopbench PID [ROUNDS]``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import median

from analyzers.stacks.confine import find_tool
from collector.actions.standstill import STOP_SECONDS, hold, unwind
from collector.actions.tracing import trace
from collector.sources.procfs import Process

ROUNDS = 5
SECONDS = 60.0  # gdb reads symbols while the process stands still


@dataclass(frozen=True)
class Stop:
    """One tool over all rounds, in milliseconds: the longest standstill of a thread, median and worst.
    ``whole``: threads whose stack reaches its beginning, ``threads``: all of them (0: not counted)."""

    tool: str
    median: float
    worst: float
    whole: int = 0
    threads: int = 0

    def __str__(self) -> str:
        whole = f", {self.whole} of {self.threads} stacks whole" if self.threads else ""
        return f"{self.tool}: stopped {self.median:.1f} ms (worst {self.worst:.1f}){whole}"


def compare(pid: int, rounds: int = ROUNDS) -> list[Stop]:
    """Our stop, ``eu-stack -p`` and ``gdb -p`` by turns. Stops the process: only when asked for."""
    found = [_ours(pid, rounds)]
    for name, argv in (
        ("eu-stack -p", ["eu-stack", "-n", "64", "-p", str(pid)]),
        ("gdb -p", ["gdb", "-nx", "-batch", "-ex", "thread apply all bt 64", "-p", str(pid)]),
    ):
        tool = find_tool(argv[0])
        if tool is not None:
            found.append(_other(pid, name, [tool, *argv[1:]], rounds))
    return found


def _ours(pid: int, rounds: int) -> Stop:
    stops, whole, threads = [], 0, 0
    for _ in range(rounds):
        held = hold(pid, seconds=STOP_SECONDS)
        stops.append(held.stop_seconds * 1000)
        with Process(pid) as process:
            stacks = unwind(process, held).stacks
        whole, threads = sum(stack.complete for stack in stacks), len(held.registers)
    return Stop("llama-blackbox", median(stops), max(stops), whole, threads)


def _other(pid: int, name: str, argv: list[str], rounds: int) -> Stop:
    stops = []
    for _ in range(rounds):
        with Process(pid) as process:
            stops.append(trace(argv, process, SECONDS).longest_stop * 1000)
    return Stop(name, median(stops), max(stops))


if __name__ == "__main__":
    for line in compare(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS):
        print(line)
