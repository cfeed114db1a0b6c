"""The report as Markdown for a public bug tracker: paste-ready, nothing private, inert whatever it quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from analyzers.contracts.report import ClockOffset, Report, Thread
from analyzers.render import clocks, frames, words
from analyzers.render.markdown_many import many
from analyzers.render.moments import clock_text, digits_for, tell
from analyzers.render.safe import impersonal

SPECIAL = re.compile(r"[\\`*_\[\]|~$]|^[-+=](?=[-+=\s]|$)|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
# What a tracker links by itself, after Markdown is done: mentions, issue numbers, bare addresses. An
# empty comment behind the first character keeps each from being recognised, and shows nothing.
LINKED = re.compile(r"@|&#35;|(?<=:)(?=//)|\bwww(?=\.)|\bGH(?=-\d)")
APART = "<!-- -->"
FENCE = 3  # back-ticks at least; a block whose text holds more gets a longer fence
MAX_EVIDENCE = 40
MAX_MOMENTS = 60
MAX_THREADS = 40
MAX_CLOCKS = 10
PRIVATE_NOTE = "made with private content included: read it before you paste it"


def render_markdown(report: Report) -> str:
    """GitHub-flavoured Markdown. Directories, addresses, arguments, boot ids and inputs stay out."""
    blocks = [
        *many(report, prose),
        *_head(report),
        *_evidence(report),
        *_threads(report),
        *_timeline(report),
        *_environment(report),
        *_gaps(report),
        *_foot(report),
    ]
    return "\n\n".join(blocks) + "\n"


def prose(text: object) -> str:
    """Text that Markdown and HTML read as nothing but text; no mention or issue link either."""
    return SPECIAL.sub(lambda found: f"\\{found[0]}", _inert(text))


def _inert(text: object) -> str:
    """Text inside one of our HTML tags, where Markdown is not read."""
    shown = escape(impersonal(text), quote=False).replace("#", "&#35;")
    return LINKED.sub(lambda found: f"{found[0]}{APART}", shown)


def code(text: object) -> str:
    """An inline code span that its own text cannot end."""
    shown = impersonal(text) or " "
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def fenced(lines: list[str], language: str = "text") -> str:
    """A fenced block; the fence is longer than any run of back-ticks inside."""
    body = "\n".join(lines)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(FENCE, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def _head(report: Report) -> Iterator[str]:
    verdict = report.verdict
    yield f"## {prose(words.headline(verdict))}"
    if report.redaction != "default":
        yield f"> **Redaction {prose(report.redaction)}**: {PRIVATE_NOTE}"
    if verdict.summary:
        yield prose(verdict.summary)
    rows = [
        f"- **{label}:** {prose(value)}{f' ({prose(meaning)})' if meaning else ''}"
        for label, value, meaning in words.particulars(report)
    ]
    yield "\n".join(rows)
    if verdict.reasons:
        yield "### Why this verdict\n\n" + "\n".join(f"- {prose(reason)}" for reason in verdict.reasons)


def _evidence(report: Report) -> Iterator[str]:
    items = report.verdict.evidence[:MAX_EVIDENCE]
    if not items:
        return
    lines = [f"{item.id}  [{words.trust_word(item.trust.value)}]  {item.text}" for item in items]
    yield "### Evidence"
    yield fenced([impersonal(line) for line in lines])
    yield "In brackets: who wrote it. What is marked client could have been forged by one."


def _threads(report: Report) -> Iterator[str]:
    threads = frames.ordered(report.threads)
    if not threads:
        return
    yield "### Stacks"
    telling = [thread for thread in threads if frames.is_telling(thread)]
    for thread in telling:
        yield _thread(thread, opened=thread.crashed)
    others = [thread for thread in threads if thread not in telling][:MAX_THREADS]
    if others:
        lines = [line for thread in others for line in [frames.title(thread), *_frames(thread), ""]]
        yield _details(f"{len(others)} other threads", [impersonal(line) for line in lines], opened=False)


def _thread(thread: Thread, *, opened: bool) -> str:
    return _details(frames.title(thread), [impersonal(line) for line in _frames(thread)], opened=opened)


def _frames(thread: Thread) -> Iterator[str]:
    if thread.trust:
        yield f"        ({thread.trust})"
    for row in frames.rows(thread):
        if row.frame is None:
            yield f"        {frames.folded_text(row)}"
            continue
        mark = ">" if row.frame.telling else " "
        times = f" × {words.grouped(row.frame.repeat)}" if row.frame.repeat > 1 else ""
        name = frames.short_name(row.frame.function)
        doubt = f"  [{frames.doubt(row.frame)}]" if frames.doubt(row.frame) else ""
        yield f"{mark} #{row.index:<4} {name}{times}{doubt}  {frames.place(row.frame)}".rstrip()


def _details(title: str, lines: list[str], *, opened: bool) -> str:
    state = " open" if opened else ""
    summary = SPECIAL.sub(lambda found: f"&#{ord(found[0])};", _inert(title))
    return f"<details{state}><summary>{summary}</summary>\n\n{fenced(lines)}\n\n</details>"


def _timeline(report: Report) -> Iterator[str]:
    story = tell(report)
    if not story.moments:
        yield from _clocks(report)
        return
    shown = story.moments[-MAX_MOMENTS:]
    digits = digits_for(shown)
    lines = [f"{clock_text(m.at, story.clock, digits):>12}  {m.item.text}" for m in shown]
    left_out = len(story.moments) - MAX_MOMENTS
    if left_out > 0:
        lines.insert(0, f"({left_out} earlier moments left out)")
    yield "### Timeline"
    yield fenced([impersonal(line) for line in lines])
    yield from _clocks(report)


def _clocks(report: Report) -> Iterator[str]:
    rows = [f"- {prose(_clock(each, report))}" for each in report.clocks[:MAX_CLOCKS]]
    if rows:
        yield f"{clocks.WHY}\n\n" + "\n".join(rows)


def _clock(offset: ClockOffset, report: Report) -> str:
    """Both clocks and how their offset was found, the inputs by their kinds: names are not for the public."""
    explain = offset.explain
    for item in sorted(report.inputs, key=lambda each: -len(each.name)):
        explain = explain.replace(item.name, f"the {item.kind}") if item.name else explain
    return clocks.sentence(offset, public=True) + (f": {explain}" if explain else "")


def _environment(report: Report) -> Iterator[str]:
    process, host = report.process, report.host
    size = words.grouped(process.model.size) if process.model.size is not None else None
    rows = [
        ("build", process.build),
        ("build-id", process.build_id),
        ("role", process.role),
        ("model size", f"{size} bytes" if size else None),
        ("host", ", ".join(part for part in (host.arch, host.libc, host.kernel, host.gpu) if part)),
        ("bug key", report.signature.bug_key),
        ("site key", report.signature.site_key),
    ]
    listed = "\n".join(f"- {label}: {code(value)}" for label, value in rows if value)
    if listed:
        yield f"### Environment\n\n{listed}"


def _gaps(report: Report) -> Iterator[str]:
    rows = [f"- {prose(gap.what)}: {prose(gap.why)}" for gap in report.gaps]
    if rows:
        yield "### Not known\n\n" + "\n".join(rows)


def _foot(report: Report) -> Iterator[str]:
    tool = report.tool
    extras = [f"- {prose(path)}: {prose(value)}" for path, value in words.extras(report)]
    if extras:
        yield "### Further fields\n\n" + "\n".join(extras)
    yield f"Written by {prose(tool.name)} {prose(tool.version)}, catalogue {prose(tool.catalogue)}."
