"""Several reports in one page: a table that leads to them, and each report under ids of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from analyzers.contracts.report import Report
from analyzers.render import words
from analyzers.render.html_report import origin, sections
from analyzers.render.safe import markup

HEADS = ("Verdict", "Cause", "Phase", "Confidence")
GRADES = {"right": "good", "wrong": "bad"}  # cells that judge a verdict are set off from the others
# Foreign text has no bare quote and no bare "<" (safe.markup), so these match our own markup only.
NAMED = re.compile(r'( id="| href="#| aria-labelledby="| fill="url\(#)([^"]*)"')
HEADING = re.compile(r"(</?h)([1-5])\b")


def many(
    reports: Sequence[Report | None], title: str, rows: Sequence[Sequence[str]], heads: Sequence[str]
) -> str:
    """Everything inside ``<body>``; see ``html.render_html_many`` for the arguments."""
    lines = list(zip_longest(reports, rows))
    parts = [_part(n, report, cells, len(lines)) for n, (report, cells) in enumerate(lines, 1) if report]
    first = next((report for report in reports if report is not None), None)
    made = f"{markup(first.tool.name)} {markup(first.tool.version)}" if first else ""
    return (
        '<a class="skip" href="#overview">To the overview</a>\n'
        f"<header><span>{made}</span><span>{_count(len(parts))}</span></header>\n"
        f"<main>\n{_overview(title, lines, heads or ('' if rows else HEADS))}{''.join(parts)}</main>\n"
        f"<footer>{origin(first) if first else ''} This page loads nothing and runs nothing.</footer>\n"
    )


def _count(number: int) -> str:
    return "1 incident report" if number == 1 else f"{number} incident reports"


def _overview(
    title: str, lines: Sequence[tuple[Report | None, Sequence[str] | None]], heads: Sequence[str]
) -> str:
    head = "".join(f'<th scope="col">{markup(name)}</th>' for name in heads)
    body = "".join(_line(n, report, cells, heads) for n, (report, cells) in enumerate(lines, 1))
    return (
        '<section class="overview" id="overview" aria-labelledby="title">'
        f'<h1 id="title">{markup(title)}</h1><div class="scroll"><table class="stack">'
        "<caption>Each line leads to its report below</caption>"
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table></div></section>\n"
    )


def _line(number: int, report: Report | None, cells: Sequence[str] | None, heads: Sequence[str]) -> str:
    first, *others = cells or _verdict_cells(report)
    name = markup(first) if report is None else f'<a href="#r{number}">{markup(first)}</a>'
    names = [*heads[1:], *[""] * len(others)]
    rest = "".join(_cell(text, head) for text, head in zip(others, names, strict=False))
    return f'<tr><th scope="row">{name}</th>{rest}</tr>'


def _verdict_cells(report: Report | None) -> tuple[str, ...]:
    if report is None:
        return ("no report",)
    verdict = report.verdict
    return (words.headline(verdict), verdict.cause, verdict.phase, verdict.confidence)


def _cell(text: str, head: str) -> str:
    grade = GRADES.get(text.lower())
    shown = f'<span class="grade {grade}">{markup(text)}</span>' if grade else markup(text)
    label = f' data-head="{markup(head)}"' if head else ""
    return f"<td{label}>{shown}</td>"


def _part(number: int, report: Report, cells: Sequence[str] | None, total: int) -> str:
    prefix = f"r{number}-"
    name = f"<b>{markup(cells[0])}</b> · " if cells else ""
    back = f'<p class="crumb">{name}{number} of {total} · <a href="#overview">Overview</a></p>'
    inner = lowered(prefixed(sections(report), prefix))
    return f'<article id="r{number}" aria-labelledby="{prefix}headline">{back}\n{inner}</article>\n'


def prefixed(page: str, prefix: str) -> str:
    """``page`` with ``prefix`` before every id and before every reference to one."""

    def rename(found: re.Match[str]) -> str:
        return f'{found[1]}{" ".join(prefix + name for name in found[2].split(" "))}"'

    return NAMED.sub(rename, page)


def lowered(page: str) -> str:
    """``page`` with every heading one level down, so that the whole has one first-level heading."""
    return HEADING.sub(lambda found: f"{found[1]}{int(found[2]) + 1}", page)
