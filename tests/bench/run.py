"""Measures the figures and writes them to docs/figures.md: ``python -m tests.bench.run``.

Exit status 0 when everything could be measured, whether goals are met or not; 1 when something could not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from analyzers.errors import UserError
from tests.bench import agent, disturbance, journal, logs, machine, startup, verdict
from tests.bench.measure import ROOT, MeasureError
from tests.bench.table import Section, failure, markdown, plain

PAGE = ROOT / "docs" / "figures.md"
AGAIN = ("make bench", "make bench SERVER_BIN=PATH  # a native llama-server with D2 as well")
PARTS = ("verdict", "logs", "startup", "journal", "agent", "disturbance")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    head = machine.description()
    parts = options.only or (*PARTS, *(["native"] if options.server_bin else []))
    sections = [section for part in parts for section in _part(part, options.rounds, options.server_bin)]
    print(plain(sections))
    if not options.only:
        options.output.write_text(markdown(sections, head, AGAIN), encoding="utf-8")
        print(f"\nwritten: {options.output}")
    return 1 if any(row.failed for section in sections for row in section.rows) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.run", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=(*PARTS, "native"), help="this part alone; writes no page"
    )
    parser.add_argument("--rounds", type=int, default=verdict.ROUNDS, help="runs of each kind")
    parser.add_argument(
        "--server-bin", type=Path, help="a native llama-server with D2, for the same two crashes"
    )
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write")
    return parser.parse_args(arguments)


def _part(name: str, rounds: int, binary: Path | None) -> list[Section]:
    say = _sayer(name)
    say("begins")
    measures: dict[str, Callable[[], list[Section]]] = {
        "verdict": lambda: verdict.measure(say, rounds),
        "native": lambda: verdict.measure_native(say, binary.resolve(), rounds) if binary else [],
        "logs": lambda: [logs.measure(rounds)],
        "startup": lambda: [startup.measure()],
        "journal": lambda: journal.measure(rounds),
        "agent": agent.measure,
        "disturbance": disturbance.measure,
    }
    try:
        return measures[name]()
    except (MeasureError, UserError, OSError) as error:
        return [Section(name, (failure("this part", str(error)),))]


def _sayer(name: str) -> Callable[[str], None]:
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"{name} {time.monotonic() - begun:5.1f} s  {line}", file=sys.stderr, flush=True)

    return say


if __name__ == "__main__":
    sys.exit(main())
