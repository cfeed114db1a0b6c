"""One report as the body of a page: verdict, advice and timeline first, the longer sections after."""

from __future__ import annotations

from analyzers.contracts.report import Report
from analyzers.render import html_detail as detail
from analyzers.render import words
from analyzers.render.html_incidents import incidents
from analyzers.render.moments import tell
from analyzers.render.safe import clean, markup
from analyzers.render.svg import NARROW, WIDTH, describe, timeline_svg

STEP = 30  # px between the steps of the confidence meter


def body(report: Report) -> str:
    """Everything inside ``<body>`` of a report's own page."""
    made = f"{markup(report.tool.name)} {markup(report.tool.version)}"
    return (
        '<a class="skip" href="#verdict">To the verdict</a>\n'
        f"<header><span>{made}</span><span>Incident report</span></header>\n"
        f"<main>\n{sections(report)}</main>\n"
        f"<footer>{origin(report)} This page loads nothing and runs nothing.</footer>\n"
    )


def origin(report: Report) -> str:
    """One sentence: what wrote the report, and how much was left out of it."""
    tool = report.tool
    return (
        f"Written by {markup(tool.name)} {markup(tool.version)}, catalogue {markup(tool.catalogue)}; "
        f"redaction: {markup(report.redaction)}; schema: {markup(report.schema_)}."
    )


def sections(report: Report) -> str:
    """The report itself, without a page's head and foot; ids are unique within one report only."""
    return "".join(
        (
            incidents(report),
            _verdict(report),
            _advice(report),
            _timeline(report),
            detail.reasons(report),
            detail.evidence(report),
            detail.threads(report),
            detail.gaps(report),
            detail.signature(report),
            detail.process(report),
            detail.reproduce(report),
            detail.extras(report),
            detail.raw(report),
        )
    )


def _verdict(report: Report) -> str:
    verdict = report.verdict
    note = words.newer_schema(report)
    rows = [
        f"<dt>{markup(label)}</dt><dd><b>{markup(value)}</b>{_explained(meaning)}</dd>"
        for label, value, meaning in words.particulars(report)
        if label != "Confidence"
    ]
    summary = f'<p class="summary">{markup(verdict.summary)}</p>' if verdict.summary else ""
    return (
        f'<section class="verdict {words.tone(verdict)}" id="verdict" aria-labelledby="headline">'
        f'<span class="tone">{markup(words.tone_word(verdict))}</span>'
        f'<h1 id="headline">{markup(words.headline(verdict))}</h1>{summary}{_meter(report)}'
        f"<dl>{''.join(rows)}</dl>{f'<p>{markup(note)}</p>' if note else ''}</section>\n"
    )


def _explained(meaning: str) -> str:
    return f"<br><small>{markup(meaning)}</small>" if meaning else ""


def _meter(report: Report) -> str:
    """Confidence as three steps and in words."""
    verdict = report.verdict
    filled = words.CONFIDENCE_STEPS.get(verdict.confidence, 0)
    boxes = "".join(
        f'<rect class="{"on" if step < filled else "off"}" x="{step * STEP + 1}" y="1" '
        'width="26" height="10" rx="2"/>'
        for step in range(words.MAX_STEPS)
    )
    picture = f'<svg class="steps" viewBox="0 0 92 12" aria-hidden="true" focusable="false">{boxes}</svg>'
    word = markup(words.confidence_word(verdict))
    meaning = markup(words.confidence_meaning(verdict))
    return f'<p class="meter">{picture}<b>Confidence: {word}</b><span>{meaning}</span></p>'


def _advice(report: Report) -> str:
    steps = [f"<li>{markup(step.text)}{detail.command(step.command)}</li>" for step in report.verdict.advice]
    nothing = "Nothing." if words.tone(report.verdict) == "ok" else "This report gives no advice."
    body = f"<ol>{''.join(steps)}</ol>" if steps else f"<p>{nothing}</p>"
    return detail.section("do", "What to do", body)


def _timeline(report: Report) -> str:
    if not report.timeline:
        return detail.section("timeline", "Timeline", detail.offsets(report)) if report.clocks else ""
    story = tell(report)
    figure = ""
    if story.moments:
        wide = timeline_svg(report, WIDTH, styled=False)
        slim = timeline_svg(report, NARROW, styled=False)
        caption = markup(clean(describe(story)))
        figure = (
            f'<figure><div class="wide">{wide}</div><div class="slim">{slim}</div>'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    return detail.section("timeline", "Timeline", figure + detail.moments(story) + detail.offsets(report))
