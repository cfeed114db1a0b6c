"""Incidents in a terminal, at any width."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console

from analyzers.contracts.outbox import AttachmentRow, DeliveryRow, IncidentRow
from analyzers.render.columns import UNKNOWN, Column, Grid, Parts
from analyzers.render.look import Look, Page
from collector.incidents.find import short_length

NARROW = 72  # below this the columns' heads alone would not fit
MOST_SIGNS = 20
COLUMNS = (
    Column("ID"),
    Column("OPENED (UTC)"),
    Column("KIND"),
    Column("STATE"),
    Column("SERVER", stretches=True),
    Column("WHAT", stretches=True),
)


def show_list(
    rows: Sequence[IncidentRow], console: Console, counters: Mapping[str, int], older: int = 0
) -> None:
    """A line each, the newest first; below 72 columns a paragraph each. Then how many ``older``
    ones are not shown, and what was dropped."""
    page = Page(console, Look.of(console))
    if not rows:
        page.say("no incidents", indent=0)
    elif page.look.columns < NARROW:
        _paragraphs(page, rows)
    else:
        _table(page, rows)
    if older > 0:
        page.say(f"and {older} older ones; show, open and export take their ids", "quiet", indent=0)
    lost = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in _told(counters))
    if lost:
        page.say(f"let go or set aside so far: {lost}", "quiet", indent=0)


def _told(counters: Mapping[str, int]) -> list[tuple[str, int]]:
    return [
        (name, number) for name, number in sorted(counters.items()) if number and name != "evidence_bytes"
    ]


def _table(page: Page, rows: Sequence[IncidentRow]) -> None:
    length = short_length(rows)
    cells = [_cells(page, row, length) for row in rows]
    grid = Grid.fitting(COLUMNS, cells, page.look.columns, "…" if page.look.unicode else "...")
    page.line(page.look.text(grid.head(), "strong"))
    for row, line in zip(rows, cells, strict=True):
        page.line(page.look.text(grid.line(line), "open" if row.state == "open" else ""))


def _cells(page: Page, row: IncidentRow, length: int) -> tuple[Parts, ...]:
    ident, opened, kind, state, server, what = _row(row, length)
    names = tuple(page.look.words(part) for part in server.split(", "))
    minutes = opened.rpartition(":")[0] or opened
    return (
        *((page.look.words(one),) for one in (ident, minutes, kind, state)),
        names,
        (page.look.words(what),),
    )


def _paragraphs(page: Page, rows: Sequence[IncidentRow]) -> None:
    length = short_length(rows)
    for row in rows:
        ident, opened, kind, state, server, what = _row(row, length)
        page.hang("", page.look.text(f"{ident} {kind}, {state}", "strong"), indent=0)
        page.say(f"{opened} {server}: {what}")


def _row(row: IncidentRow, length: int) -> tuple[str, ...]:
    what = row.record.summary if row.record else (row.problem or "")
    return (row.id[:length], _utc(row.opened), row.kind, row.state, server_words(row), what or UNKNOWN)


def server_words(row: IncidentRow) -> str:
    """The server in the words of whoever runs it."""
    if row.record is None:
        return UNKNOWN
    server = row.record.server
    named = [server.unit or server.container, server.model, f"port {server.port}" if server.port else None]
    pid = server.incarnation.pid
    return ", ".join(part for part in (*named, f"PID {pid}" if pid is not None else None) if part) or UNKNOWN


def show_one(
    row: IncidentRow,
    attachments: Sequence[AttachmentRow],
    deliveries: Sequence[DeliveryRow],
    console: Console,
) -> None:
    """One incident: what is known, by which signs, what belongs to it, who has it."""
    page = Page(console, Look.of(console))
    page.hang("", page.look.text(f"{row.kind} ({row.state}, revision {row.revision})", "strong"), indent=0)
    page.copyable("id", row.id)
    _facts(page, row)
    if attachments:
        page.heading("Attachments")
    for each in attachments:
        private = ", stays on this host" if each.private else ""
        page.hang(
            page.look.glyph("bullet"),
            page.look.text(f"{each.name}: {each.kind}, {each.size:,} bytes, {each.state}{private}"),
        )
    if deliveries:
        page.heading("Delivery")
    for sent in deliveries:
        why = f" ({sent.problem})" if sent.problem else ""
        page.hang(
            page.look.glyph("bullet"),
            page.look.text(f"{sent.sink}: revision {sent.revision} {sent.state}{why}"),
        )


def _facts(page: Page, row: IncidentRow) -> None:
    record = row.record
    page.say(f"opened {_utc(row.opened)} UTC, revised {_utc(row.revised)} UTC")
    page.say(server_words(row))
    if record is None:
        page.say(row.problem or "", "fault")
        return
    for line in (record.summary, *record.notes):
        if line:
            page.say(line)
    if record.verdict is not None:
        page.say(f"verdict: {record.verdict.class_}, {record.verdict.confidence}", "strong")
    if record.signs:
        page.heading("Signs")
    for sign in record.signs[:MOST_SIGNS]:
        page.hang(page.look.glyph("bullet"), page.look.text(f"{sign.text} [{sign.source}]"))
    if record.gaps:
        page.heading("Missing")
    for gap in record.gaps[:MOST_SIGNS]:
        page.hang(page.look.glyph("open"), page.look.text(f"{gap.what}: {gap.why}"))


def _utc(wall: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(wall))
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
