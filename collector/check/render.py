"""A check on a terminal: the verdict of each server first, then its findings, the worst first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyzers.privacy.visible import visible
from collector.check.exposure import CLEAR, EXPOSED, OFF, POSSIBLE, Exposure
from collector.check.model import AT_RISK, BLIND, READY, WORDS, Level, Readiness, size_text, worst_first

STYLES = {
    READY: "green",
    AT_RISK: "yellow",
    BLIND: "red",
    EXPOSED: "red",
    POSSIBLE: "yellow",
    CLEAR: "green",
    OFF: "green",
    "lost": "red",
    "risk": "yellow",
    "unread": "yellow",
    "note": "dim",
    "ok": "green",
}


def show_readiness(found: Sequence[Readiness], console: Console) -> None:
    """One block a server."""
    for number, one in enumerate(found):
        if number:
            console.print()
        _head(console, one.pid, one.name, one.verdict, WORDS[one.verdict], one.unit or one.container)
        _line(console, "", one.headline)
        if one.expected is not None:
            core = one.expected
            words = f"expected core: {size_text(core.size)}, {size_text(core.written)} of it not empty"
            words += f"; about {core.seconds:.1f} s dying"
            _line(console, "", f"{words}; {one.destination}", style="dim")
        for finding in worst_first(one.findings):
            level = finding.level.value
            _line(
                console,
                level if finding.level is not Level.NOTE else "note",
                finding.what,
                marker=STYLES[level],
            )
            _line(console, "", finding.why, style="dim")
            if finding.change:
                now = f"  [now: {finding.present}]" if finding.present else ""
                _line(
                    console,
                    "",
                    f"set: {finding.change}{now}"
                    if finding.level is not Level.UNREAD
                    else f"see: {finding.change}",
                )


def show_exposure(found: Sequence[Exposure], console: Console) -> None:
    """One block a server."""
    for number, one in enumerate(found):
        if number:
            console.print()
        _head(console, one.pid, one.name, one.verdict, one.verdict, None)
        _line(console, "", one.headline)
        _line(console, "", f"build {one.build}; {one.sleep}", style="dim")
        for row in one.defects:
            _line(console, row.defect, f"{row.standing}: {row.title}", marker=STYLES[row.standing])
            why = f"{row.condition}; {row.because}" if row.condition else row.because
            _line(console, "", why, style="dim")
            if row.advice:
                _line(console, "", f"do: {row.advice}")


def show_skipped(lines: Sequence[str], console: Console) -> None:
    """What was not looked at, and the way to it."""
    for line in lines:
        _line(console, "unread", line, marker="yellow")


def _head(console: Console, pid: int, name: str, verdict: str, words: str, of: str | None) -> None:
    where = f" ({visible(of)})" if of else ""
    text = Text.assemble((f"{visible(name)} {pid}{where}: ", "bold"), (words, f"bold {STYLES[verdict]}"))
    console.print(text)


def _line(console: Console, word: str, text: str, *, marker: str = "", style: str = "") -> None:
    """One paragraph beside its word; later lines begin where its first does."""
    grid = Table.grid(padding=(0, 1), pad_edge=False)
    grid.add_column(width=8)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {word}", style=marker), Text(visible(text), style=style))
    console.print(grid)
