"""Several incidents in a page: a table that leads to the groups, and below each its deaths."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.report import Death, Report
from analyzers.render import deaths
from analyzers.render.safe import markup
from analyzers.render.uses import left_over

MOST_GROUPS, MOST_DEATHS = 100, 1500  # a browser stays quick, and the JSON holds them all
OPEN_DEATHS = 12  # a group with more of them is folded: the verdict stands below
GROUP_HEADS = ("Group", "Seen", "What", "Top frames", "When (UTC)")
DEATH_HEADS = ("No.", "PID", "When (UTC)", "Sure", "Top frame", "Input", "Seen in")


def incidents(report: Report) -> str:
    """The section, or nothing for a report about one incident."""
    if not deaths.several(report):
        return ""
    shown = deaths.listed(report, MOST_GROUPS, MOST_DEATHS)
    rest = len(report.incidents) - len(shown)
    note = f"<p>{rest} more groups stand in the JSON.</p>" if rest > 0 else ""
    pattern = deaths.time_pattern(report)
    parts = "".join(_group(each, report, pattern) for each in shown)
    return (
        '<section id="incidents" aria-labelledby="h-incidents">'
        f'<h2 id="h-incidents">{markup(deaths.overview(report))}</h2>'
        f"{_groups(shown)}{note}{parts}{_left_over(report)}{_about(report)}</section>\n"
    )


def _left_over(report: Report) -> str:
    rows = [
        f"<li><b>{markup(names)}</b>: {markup(use)}</li>" for names, use, _ in left_over(report)[:MOST_GROUPS]
    ]
    return f'<ul class="left">{"".join(rows)}</ul>' if rows else ""


def _about(report: Report) -> str:
    return (
        f'<p class="about">The <a href="#verdict">verdict below</a> is about '
        f"<b>{markup(deaths.subject(report))}</b>. Another one by its number: "
        "<code>llama-blackbox triage … --incident N --html FILE</code></p>"
    )


def _groups(shown: Sequence[deaths.Shown]) -> str:
    rows = [
        [
            f'<a class="nowrap" href="#group-{each.number}">Group {each.number}</a>',
            f"{deaths.count(each.group):,}",
            f"<b>{markup(deaths.title(each.group))}</b> {markup(each.group.title)}",
            markup(deaths.frames(each.group)),
            markup(deaths.period(each.group).replace(" UTC", "")),
        ]
        for each in shown
    ]
    return _table("Incidents that are likely one bug", GROUP_HEADS, rows)


def _group(shown: deaths.Shown, report: Report, pattern: str) -> str:
    group = shown.group
    pids = f"<p>PID {markup(deaths.pids(group))}</p>" if deaths.pids(group) and not shown.deaths else ""
    left = f"<p>{shown.left_out:,} more stand in the JSON.</p>" if shown.left_out else ""
    body = f"{pids}{_deaths(shown, report, pattern)}{left}{_explain(shown)}"
    return (
        f'<div id="group-{shown.number}" class="group"><h3>Group {shown.number}: '
        f"{deaths.count(group):,} × {markup(deaths.title(group))}</h3>{body}</div>"
    )


def _deaths(shown: deaths.Shown, report: Report, pattern: str) -> str:
    if not shown.deaths:
        return ""
    rows = [_row(death, report, pattern) for death in shown.deaths]
    table = _table("One line per death", DEATH_HEADS, rows, " flowing")
    if len(rows) <= OPEN_DEATHS:
        return table
    return f"<details><summary>{len(rows):,} deaths, one a line</summary>{table}</details>"


def _row(death: Death, report: Report, pattern: str) -> list[str]:
    mine = death.number == report.incident
    mark = ' <a href="#verdict">verdict below</a>' if mine else ""
    return [
        f'<span class="nowrap">{death.number}{mark}</span>',
        "?" if death.pid is None else f'<span class="nowrap">{death.pid}</span>',
        f'<span class="nowrap">{markup(deaths.when(death, pattern))}</span>',
        f'<span class="nowrap">{markup(death.confidence)}</span>',
        f'<span class="mono" title="{markup(death.top_frame or "")}">{markup(deaths.frame(death))}</span>',
        markup(", ".join(death.inputs) or "?"),
        markup(", ".join(death.witnesses) or "?"),
    ]


def _explain(shown: deaths.Shown) -> str:
    """Why these are one group, and the exact keys that were joined, folded away."""
    lines = [f"<li>{markup(line)}</li>" for line in shown.group.explain]
    lines += [f'<li>joined: <code class="key">{markup(key)}</code></li>' for key in shown.group.keys]
    if not lines:
        return ""
    why = f"Why these are group {shown.number}"
    return f"<details><summary>{why}</summary><ul>{''.join(lines)}</ul></details>"


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], style: str = "") -> str:
    """``rows`` hold finished HTML; on a narrow page each cell says its column's name."""
    head = "".join(f'<th scope="col">{markup(name)}</th>' for name in heads)
    body = "".join(_line(heads, row) for row in rows)
    return (
        f'<div class="scroll"><table class="stack named{style}"><caption>{markup(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _line(heads: Sequence[str], row: Sequence[str]) -> str:
    cells = "".join(
        f'<td data-head="{markup(name)}">{cell}</td>' for name, cell in zip(heads[1:], row[1:], strict=True)
    )
    return f'<tr><th scope="row">{row[0]}</th>{cells}</tr>'
