"""Several incidents in a terminal: one table of groups and deaths, as wide as the window and no longer than
two screens."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from analyzers.contracts.report import Death, Report
from analyzers.render import deaths, words
from analyzers.render.columns import UNKNOWN, Column, Grid, Parts
from analyzers.render.look import Page
from analyzers.render.uses import left_over

TABLE = 72  # columns from which a death's line is a row; below, a paragraph
COLUMNS = (
    Column("#", right=True),
    Column("PID", right=True),
    Column("UTC"),
    Column("sure"),
    Column("top frame", stretches=True),
    Column("input", stretches=True),
    Column("seen in", stretches=True),
)
TOLD = 3  # a group's lines stand under its first word
INDENT, MARK = 1, 2
MOST_LEFT = 4  # fates of inputs in no incident that are told below the table, which has to fit on two screens
LONGEST_COMMAND = 120  # characters of a command that is shown whole; a longer one is shown in short


def table(page: Page, report: Report) -> None:
    """The overview sentence, then the groups, each with a line per death."""
    page.hang("", page.look.text(deaths.overview(report), "heading"), indent=0)
    shown = deaths.listed(report)
    pattern = deaths.time_pattern(report)
    rows = {death.number: _cells(page, death, pattern) for group in shown for death in group.deaths}
    grid = _grid(page, list(rows.values())) if page.look.columns >= TABLE else None
    headed = crowded = False
    for group in shown:
        if crowded or len(group.deaths) > 1 or not headed:
            page.line()
        crowded = len(group.deaths) > 1
        _group(page, group)
        if group.deaths and grid and not headed:
            _row(page, grid.head(), "quiet")
            headed = True
        for death in group.deaths:
            _death(page, rows[death.number], grid, mine=death.number == report.incident)
        if group.left_out:
            page.say(f"and {words.grouped(group.left_out)} more in the JSON", "quiet", indent=INDENT + MARK)
    rest = len(report.incidents) - len(shown)
    if rest > 0:
        page.line()
        page.say(f"and {words.grouped(rest)} more groups in the JSON", "quiet", indent=0)
    _left_over(page, report)


def _left_over(page: Page, report: Report) -> None:
    """Inputs that no row names: what became of them."""
    rows = left_over(report)
    if rows:
        page.line()
    for names, use, _ in rows[:MOST_LEFT]:
        page.hang(
            page.look.glyph("bullet"),
            page.look.text(names, "strong"),
            page.look.text(f": {use}"),
            indent=0,
        )
    if len(rows) > MOST_LEFT:
        page.say(f"and {words.grouped(len(rows) - MOST_LEFT)} more: see --details", "quiet")


def _group(page: Page, shown: deaths.Shown) -> None:
    group = shown.group
    page.hang(
        page.look.text(f"{shown.number}.", "strong"),
        page.look.text(f"{words.grouped(deaths.count(group))} × ", "strong"),
        page.look.text(deaths.title(group), "strong"),
        page.look.text(f": {group.title}" if group.title else ""),
        indent=0,
    )
    alone = len(group.deaths) == 1 and not shown.left_out
    for label, value in (
        ("top frames", "" if alone else deaths.frames(group)),
        ("PIDs" if deaths.count(group) > 1 else "PID", "" if alone else deaths.pids(group)),
        ("", deaths.period(group)),
    ):
        if value:
            lead = f"{label} " if label else ""
            page.hang("", page.look.text(lead, "quiet"), page.look.text(value), indent=TOLD)


def _cells(page: Page, death: Death, pattern: str) -> list[Parts]:
    """The cells of ``COLUMNS``, in characters this console has."""
    say = page.look.words
    cells: list[Sequence[str]] = [
        (str(death.number),),
        (UNKNOWN if death.pid is None else str(death.pid),),
        (deaths.when(death, pattern),),
        (deaths.sure(death),),
        (deaths.frame(death),),
        death.inputs or (UNKNOWN,),
        death.witnesses or (UNKNOWN,),
    ]
    return [tuple(say(part) for part in cell) for cell in cells]


def _grid(page: Page, rows: Sequence[Sequence[Parts]]) -> Grid | None:
    room = page.look.columns - INDENT - MARK
    return Grid.fitting(COLUMNS, rows, room, page.look.words("…")) if rows else None


def _death(page: Page, cells: Sequence[Parts], grid: Grid | None, *, mine: bool) -> None:
    style = "telling" if mine else ""
    mark = page.look.glyph("telling") if mine else ""
    if grid is not None:
        _row(page, grid.line(cells), style, mark)
        return
    number, pid, *told, joined = ("" if cell == (UNKNOWN,) else ", ".join(cell) for cell in cells)
    known = ", ".join(part for part in (pid and f"PID {pid}", *told) if part)
    seen = page.look.text(f"; seen in {joined}" if joined else "", "quiet")
    page.hang(page.look.text(f"{mark:<{MARK}}{number}.", style), page.look.text(known, style), seen)


def _row(page: Page, line: str, style: str, mark: str = "") -> None:
    page.line(Text(" " * INDENT) + page.look.text(f"{mark:<{MARK}}{line}", style))


def how_to_see_more(page: Page, report: Report, command: str | None) -> None:
    """How to get at another incident, and at the rest of this one. ``command`` is the one that was given."""
    page.heading("More")
    page.say("One incident whole, with its stacks, timeline and evidence:")
    number = next((n for n in range(1, deaths.total(report) + 1) if n != report.incident), 1)
    if command and len(command) <= LONGEST_COMMAND:
        page.commands(f"{command} --incident {number}")
    else:
        page.say(f"llama-blackbox triage … --incident {number}", "command", indent=5)
    page.say(f"--details shows that of incident {report.incident} as well; --json has all lines.")
