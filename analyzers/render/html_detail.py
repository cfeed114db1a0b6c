"""The longer sections of the page: evidence, threads, gaps, inputs, the raw report."""

from __future__ import annotations

from analyzers.contracts.report import FrameView, Report, Thread
from analyzers.render import clocks, frames, steps, words
from analyzers.render.moments import CLOCKS, Story, clock_text, digits_for
from analyzers.render.safe import MAX_BLOCK, clean_lines, markup, raw_json
from analyzers.render.uses import use_of

MAX_ROWS = 2000  # rows of one table; a browser stays quick, and the JSON holds them all
BADGES = {word for word, _ in words.TRUST_WORDS.values()}


def section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{title}</h2>{body}</section>\n'


def command(text: str | None) -> str:
    """A command to copy with one click, whole, line by line; words are shown as words, and an option or a
    setting says that it is one."""
    if not text:
        return ""
    rows = clean_lines(text)
    lines = "\n".join(markup(line) for line in rows)
    kinds = {steps.kind_of(line) for line in rows}
    if kinds == {steps.WORDS}:
        return f'<p class="hint">{lines}</p>'
    kind = kinds.pop() if len(kinds) == 1 else steps.COMMAND
    label = "" if kind == steps.COMMAND else f"<br><small>{markup(steps.LEADS[kind])}</small>"
    return f'{label}<code class="cmd">{lines}</code>'


def trust_badge(value: str | None) -> str:
    word = words.trust_word(value)
    style = word if word in BADGES else "server"
    return f'<span class="trust {style}">{markup(word)}</span>'


def table(caption: str, heads: list[str], rows: list[list[str]]) -> str:
    """``rows`` hold finished HTML; the first cell of each row is its header."""
    head = "".join(f'<th scope="col">{markup(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>'
        for row in rows[:MAX_ROWS]
    )
    left_out = len(rows) - MAX_ROWS
    note = f"<p>{left_out} more rows stand in the JSON.</p>" if left_out > 0 else ""
    return (
        f'<div class="scroll"><table class="stack"><caption>{markup(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def reasons(report: Report) -> str:
    items = "".join(f"<li>{markup(reason)}</li>" for reason in report.verdict.reasons)
    return section("why", "Why this verdict", f"<ul>{items}</ul>") if items else ""


def evidence(report: Report) -> str:
    items = report.verdict.evidence
    if not items:
        return ""
    rows = [
        [
            markup(item.id),
            trust_badge(item.trust.value),
            f'<span class="mono">{markup(item.text)}</span>',
            markup(item.source),
            f'<span class="nowrap">{markup(words.evidence_time(item))}</span>',
        ]
        for item in items
    ]
    seen = dict.fromkeys(item.trust.value for item in items)
    legend = "".join(
        f"<li>{trust_badge(key)} {markup(meaning)}</li>"
        for key, (_, meaning) in words.TRUST_WORDS.items()
        if key in seen
    )
    heads = ["Id", "Trust", "What was seen", "Where", "When"]
    listed = table("What the verdict rests on", heads, rows)
    return section("evidence", "Evidence", f'{listed}<ul class="frames">{legend}</ul>')


def threads(report: Report) -> str:
    if not report.threads:
        return ""
    blocks = [_thread(thread) for thread in frames.ordered(report.threads)]
    return section("threads", "Threads", "".join(blocks))


def _thread(thread: Thread) -> str:
    opened = " open" if frames.is_telling(thread) else ""
    items = "".join(_row(row) for row in frames.rows(thread)) or "<li>no frames</li>"
    name = f' <span class="quiet">{markup(thread.name)}</span>' if thread.name else ""
    known = f'<p class="hint">{markup(thread.trust)}</p>' if thread.trust else ""
    return (
        f"<details{opened}><summary>{markup(frames.title(thread))}{name}</summary>"
        f'{known}<ol class="frames mono">{items}</ol></details>'
    )


def _row(row: frames.Row) -> str:
    if row.frame is None:
        hidden = "".join(
            f'<li><span class="no">#{row.index + n}</span>{markup(frames.short_name(frame.function))}</li>'
            for n, frame in enumerate(row.folded)
        )
        summary = f"<summary>{markup(frames.folded_text(row))}</summary>"
        return f'<li><details>{summary}<ol class="frames">{hidden}</ol></details></li>'
    return _frame(row.index, row.frame)


def _frame(index: int, frame: FrameView) -> str:
    times = f' <span class="times">× {words.grouped(frame.repeat)}</span>' if frame.repeat > 1 else ""
    tag = '<span class="tag">◀ telling</span>' if frame.telling else ""
    where = f' <span class="where">{markup(frames.place(frame))}</span>' if frames.place(frame) else ""
    name = f'<span title="{markup(frame.function or "")}">{markup(frames.short_name(frame.function))}</span>'
    opening = '<li class="telling">' if frame.telling else "<li>"
    doubt = f' <span class="where">[{frames.doubt(frame)}]</span>' if frames.doubt(frame) else ""
    return f'{opening}<span class="no">#{index}</span>{name}{times}{tag}{doubt}{where}</li>'


def moments(story: Story) -> str:
    """All moments as a table, folded away under the picture."""
    items = [moment.item for moment in story.moments] + list(story.others)
    digits = digits_for(story.moments)
    rows = [
        [
            f'<span class="nowrap">{markup(clock_text(item.at, item.clock, digits))}</span>',
            markup(item.text),
            markup(item.event),
            trust_badge(item.trust) if item.trust else "",
            markup(item.source or ""),
        ]
        for item in items
    ]
    caption = f"Clock: {CLOCKS.get(story.clock, story.clock)}"
    body = table(caption, ["When", "What", "Event", "Trust", "Where"], rows)
    return f"<details><summary>All {len(items)} moments as a table</summary>{body}</details>"


def offsets(report: Report) -> str:
    """How the sources' clocks stand to each other, and why that is said."""
    items = [
        f"<li>{markup(clocks.sentence(each))}"
        f"{f'<br><small>{markup(each.explain)}</small>' if each.explain else ''}</li>"
        for each in report.clocks[:MAX_ROWS]
    ]
    if not items:
        return ""
    return f'<div class="clocks"><h3>Clocks</h3><p>{markup(clocks.WHY)}</p><ul>{"".join(items)}</ul></div>'


def gaps(report: Report) -> str:
    items = "".join(
        f"<li><b>{markup(gap.what)}</b>: {markup(gap.why)}{command(gap.command)}</li>" for gap in report.gaps
    )
    return section("gaps", "What is missing", f"<ul>{items}</ul>") if items else ""


def signature(report: Report) -> str:
    found = report.signature
    if not (found.bug_key or found.site_key):
        return ""
    keys = (("Bug", found.bug_key, "the same in every build"), ("Site", found.site_key, "this build only"))
    rows = "".join(
        f'<dt>{label}</dt><dd><code class="cmd">{markup(key)}</code><small>{meaning}</small></dd>'
        for label, key, meaning in keys
        if key
    )
    notes = "".join(f"<li>{markup(note)}</li>" for note in found.explain)
    how = f"<details><summary>How the keys were made</summary><ul>{notes}</ul></details>" if notes else ""
    return section("signature", "Signature", f"<dl>{rows}</dl>{how}")


def process(report: Report) -> str:
    rows = "".join(
        f"<dt>{markup(label)}</dt><dd>{markup(value)}</dd>" for label, value in words.process_rows(report)
    )
    return section("process", "Process", f"<dl>{rows}</dl>") if rows else ""


def reproduce(report: Report) -> str:
    """Inputs with their hashes, and the command that gives this verdict again."""
    rows = [
        [
            markup(item.name),
            markup(item.kind),
            f"{words.grouped(item.size)} bytes",
            markup(use_of(item, report)),
            f'<span class="mono">{markup(item.sha256 or "not computed")}</span>',
        ]
        for item in report.inputs
    ]
    listed = (
        table("Inputs", ["Name", "Kind", "Size", "What became of it", "SHA-256"], rows)
        if rows
        else "<p>No inputs named.</p>"
    )
    return section("reproduce", "Reproduce this verdict", command(words.reproduce(report)) + listed)


def extras(report: Report) -> str:
    rows = "".join(f"<dt>{markup(path)}</dt><dd>{markup(value)}</dd>" for path, value in words.extras(report))
    return section("extras", "Fields this version does not know", f"<dl>{rows}</dl>") if rows else ""


def raw(report: Report) -> str:
    """The whole report as JSON, so that the page is also the data."""
    text = raw_json(report.model_dump(mode="json", by_alias=True))
    block = f"<details><summary>Show as JSON</summary><pre><code>{_escaped(text)}</code></pre></details>"
    return f'<section class="raw" aria-labelledby="h-raw"><h2 id="h-raw">Raw report</h2>{block}</section>\n'


def _escaped(text: str) -> str:
    return "\n".join(markup(line, MAX_BLOCK) for line in text.split("\n"))
