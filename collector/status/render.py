"""The picture in a terminal: readable without colour, at any width, and aloud."""

from __future__ import annotations

import time

from rich.console import Console

from analyzers.render.look import Look, Page
from collector.status.picture import LETTERS, Picture, Shown

MOST = 40  # servers that are shown; the worst come first
BAR_ROOM = 76  # columns from which on the bar stands beside the state
WORSE = ("stranded", "hung", "crashed", "dumping", "down")
LEGEND = "last 30 min, newest right: " + " ".join(
    f"{letter} {state}" for state, letter in LETTERS.items() if state not in ("crashed",)
)


def render(picture: Picture, console: Console) -> None:
    """Servers, then the last incidents, then what is wrong with the agent itself."""
    page = Page(console, Look.of(console))
    _agent(page, picture)
    if not picture.servers:
        page.say("no llama-server is running here, as far as the agent can see", indent=0)
    for one in picture.servers[:MOST]:
        _server(page, one)
    if len(picture.servers) > MOST:
        page.say(f"and {len(picture.servers) - MOST} more, all in a better state", "quiet", indent=0)
    if picture.servers:
        page.say(LEGEND, "quiet", indent=0)
    _incidents(page, picture)


def _agent(page: Page, picture: Picture) -> None:
    if picture.age is None:
        page.say("the agent has not written anything yet", "open", indent=0)
    elif picture.silent:
        words = f"the agent has not written for {span(picture.age)}: what follows is old; is it running?"
        page.say(words, "fault", indent=0)
    for problem in picture.problems:
        page.say(f"the agent: {problem}", "open", indent=0)
    for name, number in sorted(picture.dropped.items()):
        page.say(f"{number} {name.replace('_', ' ')}", "open", indent=0)


def _server(page: Page, one: Shown) -> None:
    style = "fault" if one.state in WORSE else "asleep" if one.state == "asleep" else ""
    mark = page.look.glyph("fault") if one.state in WORSE else page.look.glyph("bullet")
    head = [page.look.text(one.name, "strong"), page.look.text(f"  {one.state}", style)]
    page.hang(mark, *head, page.look.text(f" for {span(one.seconds)}"), indent=0)
    if page.look.width >= BAR_ROOM:
        page.hang("", page.look.text(f"[{one.bar}]", "quiet"), page.look.text(f"  {_figures(one)}"), indent=2)
    else:
        page.say(f"[{one.bar}]", "quiet")
        page.say(_figures(one))
    for text in _remarks(one):
        page.say(text, "open" if one.state in WORSE else "quiet")


def _figures(one: Shown) -> str:
    sleeps, wakes = one.number("sleeps"), one.number("wakes")
    parts = [f"build {one.text('build') or 'unknown'}"]
    limit = one.number("sleep_idle_seconds")
    if limit is not None:
        parts.append("never sleeps" if limit < 0 else f"sleeps after {limit:g} s")
    if sleeps or wakes:
        parts.append(f"slept {int(sleeps or 0)}, woke {int(wakes or 0)} times")
    wake = one.number("wake_seconds")
    if wake is not None:
        parts.append(f"last wake {wake:.2f} s")
    defects = one.about.get("defects")
    if isinstance(defects, list) and defects:
        parts.append("exposed to " + " ".join(str(each)[:8] for each in defects[:8]))
    return ", ".join(parts)


def _remarks(one: Shown) -> list[str]:
    told = [one.text("reason")] if one.state in WORSE else []
    waiting = one.about.get("stranded")
    if isinstance(waiting, list) and waiting:
        told.append(f"{len(waiting)} requests wait that nothing will answer")
    for key in ("state_notes", "notes", "problems"):
        values = one.about.get(key)
        if isinstance(values, list):
            told += [str(each) for each in values[:3]]
    return [text for text in told if text]


def _incidents(page: Page, picture: Picture) -> None:
    page.heading("Last incidents")
    if not picture.incidents:
        page.say("none")
    for row in picture.incidents:
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(row.opened)) if 0 <= row.opened < 4e10 else "?"
        summary = row.record.summary if row.record is not None else row.problem or ""
        head = page.look.text(f"{row.id[:8]} {at} UTC {row.kind}, {row.state}: ", "strong")
        page.hang(page.look.glyph("bullet"), head, page.look.text(summary), indent=0)
    if picture.incidents:
        page.say("whole: llama-blackbox incidents show ID", "quiet")


def span(seconds: float) -> str:
    """A duration in at most two units."""
    whole = int(max(0.0, seconds))
    for unit, size, lower, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {lower}" if rest else "")
    return f"{whole} s"
