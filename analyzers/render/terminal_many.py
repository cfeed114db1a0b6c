"""Several incidents in a terminal: one table of groups and deaths, as wide as the window and no longer than
two screens."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from analyzers.contracts.report import Death, Report
from analyzers.render import deaths, words
from analyzers.render.look import Page

TABLE = 72  # columns from which a death's line is a row; below, a paragraph
HEADS = ("#", "PID", "UTC", "sure", "top frame", "input", "seen in")
STRETCHING = (4, 5, 6)  # columns that share what room the others leave
LEAST = 7  # columns that each of them gets
MOST = 32  # of them: one long name must not starve the other columns
WIDEST = 24  # of any other column
TOLD = 3  # a group's lines stand under its first word
INDENT, MARK, GAP = 1, 2, 2
LONGEST_COMMAND = 120  # characters of a command that is shown whole; a longer one is shown in short

Parts = tuple[str, ...]  # one cell; what does not fit is counted


def table(page: Page, report: Report) -> None:
    """The overview sentence, then the groups, each with a line per death."""
    page.hang("", page.look.text(deaths.overview(report), "heading"), indent=0)
    shown = deaths.listed(report)
    pattern = deaths.time_pattern(report)
    rows = {death.number: _cells(page, death, pattern) for group in shown for death in group.deaths}
    widths = _widths(page, list(rows.values())) if page.look.columns >= TABLE else ()
    headed = crowded = False
    for group in shown:
        if crowded or len(group.deaths) > 1 or not headed:
            page.line()
        crowded = len(group.deaths) > 1
        _group(page, group)
        if group.deaths and widths and not headed:
            _row(page, [(head,) for head in HEADS], widths, "quiet")
            headed = True
        for death in group.deaths:
            _death(page, rows[death.number], widths, mine=death.number == report.incident)
        if group.left_out:
            page.say(f"and {words.grouped(group.left_out)} more in the JSON", "quiet", indent=INDENT + MARK)
    rest = len(report.incidents) - len(shown)
    if rest > 0:
        page.line()
        page.say(f"and {words.grouped(rest)} more groups in the JSON", "quiet", indent=0)


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
    """The columns of ``HEADS``, in characters this console has."""
    say = page.look.words
    cells: list[Sequence[str]] = [
        (str(death.number),),
        ("?" if death.pid is None else str(death.pid),),
        (deaths.when(death, pattern),),
        (deaths.sure(death),),
        (deaths.frame(death),),
        death.inputs or ("?",),
        death.witnesses or ("?",),
    ]
    return [tuple(say(part) for part in cell) for cell in cells]


def _widths(page: Page, rows: Sequence[Sequence[Parts]]) -> tuple[int, ...]:
    """Columns of each cell: what the longest one needs; the stretching ones share what room is left, first
    for their first part, then for all of them."""
    heads = [(head,) for head in HEADS]
    needs = [max(cell_len(", ".join(row[at])) for row in (*rows, heads)) for at in range(len(HEADS))]
    short = [
        max(cell_len(row[at][0] + _rest(row[at], 1)) for row in (*rows, heads)) for at in range(len(HEADS))
    ]
    widths = [min(need, WIDEST) for need in needs]
    room = page.look.columns - INDENT - MARK - GAP * (len(HEADS) - 1)
    room -= sum(width for at, width in enumerate(widths) if at not in STRETCHING)
    first = _shared(room, [min(short[at], MOST) for at in STRETCHING])
    wanted = [min(needs[at], MOST) - given for at, given in zip(STRETCHING, first, strict=True)]
    left = _shared(room - sum(first), wanted)
    for at, given, more in zip(STRETCHING, first, left, strict=True):
        widths[at] = max(LEAST, given + more)
    return tuple(widths)


def _shared(room: int, needs: Sequence[int]) -> list[int]:
    """``room`` dealt out: nobody gets more than needed, and what the modest leave goes to the others."""
    given = [0] * len(needs)
    order = sorted(range(len(needs)), key=needs.__getitem__)
    for left, at in zip(range(len(needs), 0, -1), order, strict=True):
        given[at] = max(0, min(needs[at], room // left))
        room -= given[at]
    return given


def _rest(cell: Parts, kept: int) -> str:
    return f" +{len(cell) - kept}" if kept < len(cell) else ""


def _death(page: Page, cells: Sequence[Parts], widths: Sequence[int], *, mine: bool) -> None:
    style = "telling" if mine else ""
    if widths:
        _row(page, cells, widths, style, page.look.glyph("telling") if mine else "")
        return
    number, pid, when, sure, frame, inputs, joined = (", ".join(cell) for cell in cells)
    mark = f"{page.look.glyph('telling') if mine else '':<{MARK}}{number}."
    told = f"PID {pid}, {when}, {sure}, {frame}; {inputs}"
    page.hang(
        page.look.text(mark, style),
        page.look.text(told, style),
        page.look.text(f"; seen in {joined}", "quiet"),
    )


def _row(page: Page, cells: Sequence[Parts], widths: Sequence[int], style: str, mark: str = "") -> None:
    line = Text(" " * INDENT) + page.look.text(f"{mark:<{MARK}}", style)
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        shown = _fitting(page, cell, width)
        blank = " " * (width - cell_len(shown))
        text = f"{blank}{shown}" if at < 2 else f"{shown}{blank}"
        line += page.look.text(text if at == 0 else " " * GAP + text, style)
    line.rstrip()
    page.line(line)


def _fitting(page: Page, cell: Parts, width: int) -> str:
    """The parts that fit, and how many more there are; a first one that does not fit loses its middle."""
    for kept in range(len(cell), 0, -1):
        text = ", ".join(cell[:kept]) + _rest(cell, kept)
        if cell_len(text) <= width:
            return text
    rest = _rest(cell, 1)
    return _shortened(cell[0], width - len(rest), page.look.words("…")) + rest


def _shortened(text: str, width: int, dots: str) -> str:
    """At most ``width`` columns of ``text``: its start and, longer, its end, which tell names apart."""
    if cell_len(text) <= width:
        return text
    room = max(width - len(dots), 0)
    head = _columns(text, room // 3)
    tail = _columns(text[::-1], room - cell_len(head))[::-1]
    return f"{head}{dots}{tail}"


def _columns(text: str, width: int) -> str:
    used = 0
    for at, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return text[:at]
    return text


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
