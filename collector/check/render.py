"""A check on a terminal: the verdict of each server first, then its findings, the worst first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from analyzers.privacy.visible import visible
from collector.check.exposure import CLEAR, EXPOSED, OFF, POSSIBLE, Exposure, Standing
from collector.check.model import (
    AT_RISK,
    BLIND,
    READY,
    WORDS,
    Finding,
    Level,
    Readiness,
    size_text,
    worst_first,
)
from collector.check.overview import View
from collector.check.rest import AtRest

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

INDENT = 9  # columns before a paragraph
MAX_ROUTES = 6  # of one kind that are printed; --json has them all
LABELS = {"restart": "start", "scope": "reach", "settings": "reads"}  # six letters fit beside a finding


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
        _defects(one.defects, console)


def _defects(rows: Sequence[Standing], console: Console) -> None:
    """Those that may hit first, with their routes and remedy; the others in a line each."""
    order = (EXPOSED, POSSIBLE, OFF, CLEAR)
    for row in sorted(rows, key=lambda one: order.index(one.standing)):
        _line(console, row.defect, f"{row.standing}: {row.title}", marker=STYLES[row.standing])
        why = f"{row.condition}; {row.because}" if row.condition else row.because
        _line(console, "", why, style="dim")
        for through in row.routes:
            _line(console, "", _routes(str(through), len(through.routes), through.routes), style="dim")
        if row.advice:
            _line(console, "", f"do: {row.advice}")


def _routes(text: str, count: int, routes: Sequence[str]) -> str:
    if count <= MAX_ROUTES:
        return f"routes {text}"
    return f"routes {text.partition(':')[0]}: {', '.join(routes[:MAX_ROUTES])} and {count - MAX_ROUTES} more"


def show_views(found: Sequence[View], console: Console) -> None:
    """One block a server: exposure, then what else was looked at, the worst first. What two servers share
    is printed once."""
    shown: dict[tuple[Standing, ...], int] = {}
    for number, one in enumerate(found):
        if number:
            console.print()
        exposure = one.exposure
        of = one.readiness.unit or one.readiness.container
        _head(console, one.pid, exposure.name, one.verdict, one.verdict, of)
        _line(console, "", exposure.headline)
        role = one.role if one.model is None else f"{one.role}, model {one.model}"
        where = f"; {', '.join(one.doors.shown()[:3])}" if one.doors.addresses else ""
        _line(console, "", f"{role}{where}; build {exposure.build}; {exposure.sleep}", style="dim")
        first = shown.setdefault(exposure.defects, one.pid)
        if first == one.pid:
            _defects(exposure.defects, console)
        elif one.verdict in (EXPOSED, POSSIBLE):
            _line(
                console, "", f"its defects, their routes and remedies are those of {first} above", style="dim"
            )
        for finding in one.findings:
            _finding(finding, console)


def _finding(one: Finding, console: Console) -> None:
    level = "" if one.level in (Level.NOTE, Level.OK) else f"{one.level.value}: "
    _line(console, LABELS.get(one.about, one.about), f"{level}{one.what}", marker=STYLES[one.level.value])
    if one.why:
        _line(console, "", one.why, style="dim")
    if one.change:
        now = f"  [now: {one.present}]" if one.present else ""
        see = one.level is Level.UNREAD
        _line(console, "", f"see: {one.change}" if see else f"set: {one.change}{now}")


def show_at_rest(found: Sequence[AtRest], errors: Sequence[str], console: Console) -> None:
    """Errors of the file first: the server refuses a file with one line it does not understand."""
    for error in errors:
        _line(console, "error", error, marker="red")
    for number, one in enumerate(found):
        if number or errors:
            console.print()
        name = f"[{visible(one.name)}]" if one.kind == "section" else visible(one.name)
        words = (one.verdict, f"bold {STYLES[one.verdict]}")
        console.print(Text.assemble((f"{name}: ", "bold"), words))
        _line(console, "", one.headline)
        metrics = "" if one.metrics is None else f"; /metrics {'on' if one.metrics else 'off'}"
        _line(console, "", f"build {one.build}; {one.sleep}{metrics}", style="dim")
        for error in one.errors:
            _line(console, "error", error, marker="red")
        _defects(one.defects, console)


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
    room = max(console.width - INDENT, 1)
    lines = Text(visible(text), style=style).wrap(console, room, overflow="fold") or [Text("")]
    head = Text(f"  {word}".ljust(INDENT)[:INDENT], style=marker)
    for number, line in enumerate(lines):
        line.rstrip()
        console.print(Text.assemble(head if not number else " " * INDENT, line), no_wrap=True, crop=False)
