"""The rows a benchmark yields, and the page they make. A row holds only what this run measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

MEBI = 1 << 20
VERDICTS = {True: "met", False: "MISSED", None: ""}


@dataclass(frozen=True)
class Row:
    """One figure. ``figure`` is what was found, ``goal`` what was wanted, ``met`` None where there is no
    goal; ``how`` says what was run. ``failed`` marks a figure that could not be measured."""

    what: str
    figure: str
    how: str
    goal: str = ""
    met: bool | None = None
    failed: bool = False


@dataclass(frozen=True)
class Section:
    """Rows that belong together, and a sentence about the material they were measured on."""

    title: str
    rows: tuple[Row, ...]
    material: str = ""


def failure(what: str, why: str, goal: str = "") -> Row:
    """The row of a figure that could not be measured; it is shown, not left out."""
    return Row(what, f"not measured: {why}", "", goal, failed=True)


def at_least(value: float, limit: float) -> tuple[str, bool]:
    return f"at least {limit:g} times", value >= limit


def at_most(value: float, limit: float, unit: str) -> tuple[str, bool]:
    return f"at most {limit:g} {unit}", value <= limit


def seconds(values: Sequence[float]) -> str:
    """Median of some durations in seconds, with the smallest and the largest: ``0.31 s (0.30-0.33)``."""
    digits = 3 if median(values) < 1 else 2
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{middle} s" if len(values) == 1 else f"{middle} s ({low}-{high})"


def mebibytes(size: float) -> str:
    return f"{size / MEBI:,.0f} MiB"


def plain(sections: Iterable[Section]) -> str:
    """The table for a terminal: one figure a line, what was run beneath."""
    lines: list[str] = []
    for section in sections:
        lines += ["", section.title]
        for row in section.rows:
            aim = f"   [{row.goal}: {VERDICTS[row.met]}]" if row.goal else ""
            lines.append(f"  {row.what}: {row.figure}{aim}")
    return "\n".join(lines).lstrip("\n")


def markdown(sections: Iterable[Section], head: Sequence[tuple[str, str]], again: Sequence[str]) -> str:
    """The page for ``docs/``: the machine, how to measure again, and one table a section."""
    lines = ["# Figures", "", "Written by a run of the benchmark: every row was measured in that run.", ""]
    lines += [f"- {name}: {_cell(value)}" for name, value in head]
    lines += ["", "Measure again:", "", "```", *again, "```"]
    for section in sections:
        lines += ["", f"## {section.title}", ""]
        lines += [section.material, ""] if section.material else []
        lines += ["| what | figure | goal | met | how it was measured |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in section.rows]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    met = "not measured" if row.failed else VERDICTS[row.met]
    return f"| {' | '.join(_cell(text) for text in (row.what, row.figure, row.goal, met, row.how))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
