"""The report as one self-contained page: no script, no external host, every text escaped."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from analyzers.contracts.report import Report
from analyzers.render import html_detail as detail
from analyzers.render import svg_marks, words
from analyzers.render.moments import tell
from analyzers.render.safe import clean, markup
from analyzers.render.svg import NARROW, WIDTH, describe, timeline_svg

STEP = 30  # px between the steps of the confidence meter


def render_html(report: Report) -> str:
    """The page, as UTF-8 text. The content policy admits this page's own style sheet and nothing else."""
    style = files("analyzers.render").joinpath("page.css").read_text(encoding="utf-8") + svg_marks.STYLE
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = markup(words.headline(report.verdict))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n{_body(report)}</body>\n</html>\n"
    )


def _body(report: Report) -> str:
    tool = report.tool
    sections = [
        detail.incidents(report),
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
    ]
    made = f"{markup(tool.name)} {markup(tool.version)}"
    return (
        '<a class="skip" href="#verdict">To the verdict</a>\n'
        f"<header><span>{made}</span><span>Incident report</span></header>\n"
        f"<main>\n{''.join(sections)}</main>\n"
        f"<footer>Written by {made}, catalogue {markup(tool.catalogue)}; "
        f"redaction: {markup(report.redaction)}; schema: {markup(report.schema_)}. "
        "This page loads nothing and runs nothing.</footer>\n"
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
        return ""
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
    return detail.section("timeline", "Timeline", figure + detail.moments(story))
