"""How long `llama-blackbox --help` takes beside the import of its two terminal libraries."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from tests.bench.measure import alternating, run
from tests.bench.table import Row, Section, at_most, seconds

ROUNDS = 21
LIMIT = 1.5


def program() -> Path:
    """The installed command of the environment that runs this benchmark."""
    return Path(sys.executable).with_name("llama-blackbox")


def measure(rounds: int = ROUNDS) -> Section:
    command = program()

    def ours() -> float:
        return run([command, "--help"]).seconds

    def bare() -> float:
        return run([sys.executable, "-c", "import typer, rich"]).seconds

    helped, imported = alternating(rounds, ours, bare)
    ratio = median(helped) / median(imported)
    goal, met = at_most(ratio, LIMIT, "times")
    row = Row(
        "`llama-blackbox --help` beside `python -c 'import typer, rich'`",
        f"{ratio:.2f} times: {seconds(helped)} beside {seconds(imported)}",
        f"whole processes, medians of {rounds} runs each, taking turns",
        goal,
        met,
    )
    return Section("Start", (row,))
