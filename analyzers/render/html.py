"""The report as one self-contained page: no script, no external host, every text escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from analyzers.contracts.report import Report
from analyzers.render import svg_marks, words
from analyzers.render.html_many import many
from analyzers.render.html_report import body
from analyzers.render.safe import markup


def render_html(report: Report) -> str:
    """The page, as UTF-8 text. The content policy admits this page's own style sheet and nothing else."""
    return _page(words.headline(report.verdict), body(report))


def render_html_many(
    reports: Sequence[Report | None],
    title: str,
    rows: Sequence[Sequence[str]] = (),
    heads: Sequence[str] = (),
) -> str:
    """Several reports as one page of the same kind: a table of contents, then one part per report.

    ``rows`` are the lines of that table as plain text, ``heads`` its column heads: ``rows[n]`` leads to
    ``reports[n]``, and None stands for a line without a report. Without rows the verdicts themselves
    fill the table. A single report without rows is its own page, under ``title``.
    """
    only = reports[0] if len(reports) == 1 and not rows else None
    return _page(title, body(only) if only is not None else many(reports, title, rows, heads))


def _page(title: str, content: str) -> str:
    style = files("analyzers.render").joinpath("page.css").read_text(encoding="utf-8") + svg_marks.STYLE
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{markup(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{content}</body>\n</html>\n"
    )
