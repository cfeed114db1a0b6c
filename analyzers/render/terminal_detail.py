"""The longer parts of the terminal rendering: evidence, stacks, timeline, inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Report, Thread
from analyzers.render import clocks, frames, words
from analyzers.render.look import Page
from analyzers.render.moments import (
    TRANSITIONS,
    Moment,
    Span,
    Story,
    clock_text,
    digits_for,
    short_clock,
    tell,
)
from analyzers.render.uses import use_of

MAX_EVIDENCE = 40  # rows; the JSON holds them all
FIRST_MOMENTS, LAST_MOMENTS = 4, 14  # a long timeline shows its start and what led to the end
TELLING_MOMENTS = 8  # of those between: the last two rounds of falling asleep, waking and loading
MAX_TRANSITIONS = 16  # sleeps, wakes, faults: the last eight rounds; how many came before is said
ROUTINE_KINDS = {"request", "probe", "other"}
MAX_CLOCKS = 6
MAX_SHOWN_THREADS = 3  # the crashed one, the loop, and one more crashed one if there is any
LABEL = max(len(word) for word, _ in words.TRUST_WORDS.values())
WIDE = 60  # columns from which a frame's module fits beside its name


def evidence(page: Page, report: Report) -> None:
    items = report.verdict.evidence
    if not items:
        return
    page.heading("Evidence")
    for item in items[:MAX_EVIDENCE]:
        _witness(page, item)
    if len(items) > MAX_EVIDENCE:
        page.say(f"and {len(items) - MAX_EVIDENCE} more in the JSON", "quiet")
    seen = {item.trust.value for item in items}
    for key, (word, explained) in words.TRUST_WORDS.items():
        if key in seen:
            page.say(f"[{word}] {explained}", "quiet")


def _witness(page: Page, item: Evidence) -> None:
    trust = f"[{words.trust_word(item.trust.value)}]"
    mark = Text() + page.look.text(f"{item.id} ", "quiet")
    label = page.look.text(trust.ljust(LABEL + 2) if page.look.width >= WIDE else trust, "strong")
    where = ", ".join(part for part in (item.source, words.evidence_time(item)) if part)
    if page.look.width >= WIDE:
        page.hang(mark + label, page.look.text(item.text))
        page.say(where, "quiet", indent=mark.cell_len + label.cell_len + 3)
    else:
        page.hang(mark, label, page.look.text(f" {item.text}"), page.look.text(f"  {where}", "quiet"))


def stacks(page: Page, report: Report) -> None:
    shown = [thread for thread in frames.ordered(report.threads) if frames.is_telling(thread)]
    shown = (shown or frames.ordered(report.threads))[:MAX_SHOWN_THREADS]
    for thread in shown:
        stack(page, thread)
    if any(frame.telling for thread in shown for frame in thread.frames):
        page.line()
        page.say(f"{page.look.glyph('telling')} marks the frames that decided the verdict", "quiet")
    rest = len(report.threads) - len(shown)
    if rest:
        page.say(f"{rest} other thread{'s' if rest > 1 else ''}: see --html or --json", "quiet")


def stack(page: Page, thread: Thread) -> None:
    page.heading(frames.title(thread))
    if thread.trust:
        page.say(thread.trust, "quiet")
    _frames(page, thread)


def _frames(page: Page, thread: Thread) -> None:
    shown = frames.rows(thread)
    if not shown:
        page.say("no frames", "quiet")
    number = max((len(str(row.index)) for row in shown), default=1)
    for row in shown:
        if row.frame is None:
            mark = f"{page.look.glyph('fold'):<2}{'':>{number}}"
            page.hang(page.look.text(mark, "quiet"), page.look.text(frames.folded_text(row), "quiet"))
            continue
        frame = row.frame
        style = "telling" if frame.telling else ""
        mark = f"{page.look.glyph('telling') if frame.telling else '':<2}{row.index:>{number}}"
        name = page.look.text(frames.short_name(frame.function), style)
        times = page.look.text(f" × {words.grouped(frame.repeat)}" if frame.repeat > 1 else "", style)
        where = frames.place(frame) if page.look.width >= WIDE else ""
        notes = (f"[{frames.doubt(frame)}]" if frames.doubt(frame) else "", where)
        aside = "".join(f"  {note}" for note in notes if note)
        page.hang(page.look.text(mark, style), name, times, page.look.text(aside, "quiet"))


def timeline(page: Page, report: Report) -> None:
    if not report.timeline:
        offsets(page, report)
        return
    story = tell(report)
    if story.moments:
        page.heading(f"Timeline ({clock_label(story)})")
        _moments(page, story)
    offsets(page, report)
    if story.others:
        page.heading("Also seen, on another clock")
    for item in story.others[:LAST_MOMENTS]:
        page.hang(page.look.text(clock_text(item.at, item.clock), "quiet"), page.look.text(item.text))


def offsets(page: Page, report: Report) -> None:
    """How the sources' clocks stand to each other, and why that is said."""
    if not report.clocks:
        return
    page.heading("Clocks")
    for offset in report.clocks[:MAX_CLOCKS]:
        note = f": {offset.explain}" if offset.explain else ""
        page.hang(
            page.look.glyph("bullet"), page.look.text(clocks.sentence(offset)), page.look.text(note, "quiet")
        )
    if len(report.clocks) > MAX_CLOCKS:
        page.say(f"and {len(report.clocks) - MAX_CLOCKS} more in the JSON", "quiet")
    page.say(clocks.WHY, "quiet")


def clock_label(story: Story) -> str:
    names = {"elapsed": "since the server's start", "mono": "since boot", "wall": "UTC"}
    return names.get(story.clock, story.clock)


def _moments(page: Page, story: Story) -> None:
    rows = _chosen(story)
    digits = digits_for([row for row in rows if isinstance(row, Moment)])
    width = max(len(short_clock(row.at, story.clock, digits)) for row in rows if isinstance(row, Moment))
    asleep = False
    for row in rows:
        rail = page.look.text(
            page.look.glyph("asleep" if asleep else "rail"), "asleep" if asleep else "quiet"
        )
        if isinstance(row, Left):
            page.hang(Text(" " * width + "  ") + rail, page.look.text(row.text, "quiet"))
            continue
        if isinstance(row, Span):
            page.hang(Text(" " * width + "  ") + rail, page.look.text(row.text, "asleep"))
            continue
        asleep = row.kind == "sleep" or (asleep and row.kind not in {"wake", "fault"})
        _moment(page, row, short_clock(row.at, story.clock, digits).rjust(width))
    if any(isinstance(row, Left) for row in rows):
        page.say("All moments: --html or --json", "quiet")


def _moment(page: Page, row: Moment, time: str) -> None:
    style = "fault" if row.kind == "fault" else "asleep" if row.kind in {"sleep", "wake"} else ""
    mark = Text() + page.look.text(f"{time}  ", "quiet") + page.look.text(page.look.glyph(row.kind), style)
    trust = words.trust_word(row.item.trust) if row.item.trust else ""
    page.hang(
        mark, page.look.text(row.item.text, style), page.look.text(f"  [{trust}]" if trust else "", "quiet")
    )


@dataclass(frozen=True)
class Left:
    """So many moments in a row that are not shown; ``sleeps`` of them are starts of a sleep."""

    count: int
    sleeps: int

    @property
    def text(self) -> str:
        slept = f", {self.sleeps} sleep{'s' if self.sleeps > 1 else ''} among them" if self.sleeps else ""
        return f"{self.count} more{slept}"


def _chosen(story: Story) -> list[Moment | Span | Left]:
    """Moments with each sleep's length behind its start; a ``Left`` stands for those left out.

    A long timeline shows its start, what led to the end, and between them what is no routine: a slot's lines
    by the hundred must not hide when the server slept and woke.
    """
    sleeps = {span.start: span for span in story.spans if span.kind == "asleep"}
    rows: list[Moment | Span | Left] = []
    for shown, run in groupby(zip(story.moments, _shown(story.moments), strict=True), lambda pair: pair[1]):
        moments = [moment for moment, _ in run]
        if not shown:
            rows.append(Left(len(moments), sum(moment.kind == "sleep" for moment in moments)))
            continue
        for moment in moments:
            rows.append(moment)
            if moment.kind == "sleep" and moment.at in sleeps:
                rows.append(sleeps[moment.at])
    return rows


def _shown(moments: Sequence[Moment]) -> list[bool]:
    last = len(moments) - LAST_MOMENTS
    if last - FIRST_MOMENTS <= 1:
        return [True] * len(moments)
    telling = [at for at in range(FIRST_MOMENTS, last) if moments[at].kind not in ROUTINE_KINDS]
    turns = [at for at in telling if moments[at].kind in TRANSITIONS][-MAX_TRANSITIONS:]
    middle = {*telling[-TELLING_MOMENTS:], *turns, *range(FIRST_MOMENTS), *range(last, len(moments))}
    # a line that says that one is left out is no shorter than the one
    return [at in middle or {at - 1, at + 1} <= middle for at in range(len(moments))]


def process(page: Page, report: Report) -> None:
    known = words.process_rows(report)
    if known:
        page.heading("Process")
    for label, value in known:
        page.hang(page.look.text(f"{label:<10}", "quiet"), page.look.text(value))


def inputs(page: Page, report: Report) -> None:
    page.heading("Inputs")
    for item in report.inputs[:MAX_EVIDENCE]:
        told = f"  {item.kind}, {words.grouped(item.size)} bytes; {use_of(item, report)}"
        page.hang(
            page.look.glyph("bullet"), page.look.text(item.name, "strong"), page.look.text(told, "quiet")
        )
        if item.sha256:
            page.copyable("sha256", item.sha256)
    if not report.inputs:
        page.say("none", "quiet")
    found = words.extras(report)
    if found:
        page.heading("Fields this version does not know")
    for path, value in found:
        page.hang(page.look.text(path, "strong"), page.look.text(value))
    tool = report.tool
    page.line()
    page.say(
        f"{tool.name} {tool.version}, catalogue {tool.catalogue}, redaction {report.redaction}", "quiet", 0
    )
