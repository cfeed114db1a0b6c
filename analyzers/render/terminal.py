"""The report in a terminal: the verdict first, then what to do, then why."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import ROUNDED
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from analyzers.contracts.report import Gap, Report
from analyzers.render import deaths, terminal_many, words
from analyzers.render.look import Look, Page
from analyzers.render.terminal_detail import evidence, inputs, process, stack, stacks, timeline

MAX_ITEMS = 50  # rows of one list; the JSON holds them all
BRIEF_GAPS = 4  # of them under a table of incidents, which has to fit with its verdict on two screens


def render_terminal(
    report: Report,
    console: Console,
    *,
    details: bool | None = None,
    table: bool = True,
    command: str | None = None,
) -> None:
    """Print ``report`` at the console's width, with its encoding.

    Several incidents: their table, then the verdict of one and what to do; its stacks, timeline and evidence
    only with ``details``. Without ``table`` the one incident alone. ``command`` is what the user typed.
    No styles, and so no escape bytes at all, under NO_COLOR or TERM=dumb.
    """
    page = Page(console, Look.of(console))
    many = deaths.several(report)
    if many:
        incidents(page, report, table=table)
    verdict(page, report)
    meaning(page, report)
    advice(page, report)
    if details or (details is None and not many):
        _whole(page, report)
    else:
        gaps(page, report.gaps, most=BRIEF_GAPS)
        terminal_many.how_to_see_more(page, report, command)


def _whole(page: Page, report: Report) -> None:
    reasons(page, report)
    evidence(page, report)
    stacks(page, report)
    timeline(page, report)
    gaps(page, report.gaps)
    signature(page, report)
    process(page, report)
    inputs(page, report)


def render_follow_up(report: Report, console: Console, before: Report | None = None) -> None:
    """Print what was learnt after the verdict was out: gdb's frames, the inputs' hashes, new gaps.

    ``before`` is the report that was printed; without it only gaps that speak of gdb count as new.
    """
    page = Page(console, Look.of(console))
    for thread in report.threads:
        if thread.rung == "gdb" and not (before and thread in before.threads):
            stack(page, thread)
    known = before.gaps if before else [gap for gap in report.gaps if "gdb" not in f"{gap.what} {gap.why}"]
    gaps(page, [gap for gap in report.gaps if gap not in known], "Also missing")
    hashed = [item for item in report.inputs if item.sha256]
    if hashed:
        page.heading("Hashes of the inputs")
    for item in hashed:
        page.hang(page.look.glyph("bullet"), page.look.text(item.name, "strong"))
        page.copyable("sha256", item.sha256 or "")


def incidents(page: Page, report: Report, *, table: bool = True) -> None:
    """The table, unless one incident was asked for; then which one the verdict is about."""
    if table:
        terminal_many.table(page, report)
        page.line()
    else:
        page.say(deaths.overview(report), "quiet", indent=0)
    mark = page.look.text(page.look.glyph("telling") if table else "", "telling")
    page.hang(mark, page.look.text(deaths.subject(report), "strong"), indent=0)


def verdict(page: Page, report: Report) -> None:
    tone = words.tone(report.verdict)
    title = f"{page.look.glyph(tone)} {words.tone_word(report.verdict)}"
    sentence = page.look.text(words.headline(report.verdict), "strong")
    if page.look.unicode:
        style = page.look.style(tone)
        label = Text(f" {title} ", style=style)
        box = Panel(
            sentence, title=label, title_align="left", box=ROUNDED, border_style=style, padding=(0, 1)
        )
        page.console.print(box, width=page.look.width, highlight=False, markup=False, emoji=False)
    else:
        page.line(page.look.text(title, tone))
        page.hang("", sentence, indent=0)
    if note := words.newer_schema(report):
        page.say(note, "open", indent=0)


def meaning(page: Page, report: Report) -> None:
    page.heading("What it means")
    if report.verdict.summary:
        page.say(report.verdict.summary)
        page.line()
    for label, value, explained in words.particulars(report):
        gap = "" if not explained else f": {explained}"
        page.hang(
            page.look.text(f"{label:<10}", "quiet"),
            page.look.text(value, "strong"),
            page.look.text(gap, "quiet"),
        )


def advice(page: Page, report: Report) -> None:
    page.heading("What to do")
    if not report.verdict.advice:
        page.say("Nothing." if words.tone(report.verdict) == "ok" else "This report gives no advice.")
    for number, step in enumerate(report.verdict.advice, 1):
        page.hang(page.look.text(f"{number}.", "strong"), page.look.text(step.text))
        if step.command:
            page.commands(step.command)


def reasons(page: Page, report: Report) -> None:
    if not report.verdict.reasons:
        return
    page.heading("Why this verdict")
    for reason in report.verdict.reasons[:MAX_ITEMS]:
        page.hang(page.look.glyph("bullet"), page.look.text(reason))


def gaps(page: Page, missing: Sequence[Gap], title: str = "What is missing", most: int = MAX_ITEMS) -> None:
    if missing:
        page.heading(title)
    for gap in missing[:most]:
        page.hang(
            page.look.glyph("bullet"), page.look.text(gap.what, "strong"), page.look.text(f": {gap.why}")
        )
        if gap.command:
            page.commands(gap.command, indent=4)
    if len(missing) > most:
        page.say(f"and {len(missing) - most} more in the JSON", "quiet")


def signature(page: Page, report: Report) -> None:
    found = report.signature
    if not (found.bug_key or found.site_key):
        return
    page.heading("Signature")
    for label, key in (("bug", found.bug_key), ("site", found.site_key)):
        if key:
            page.copyable(label, key)
    for note in found.explain[:MAX_ITEMS]:
        page.hang(page.look.glyph("bullet"), page.look.text(note, "quiet"), indent=4)
