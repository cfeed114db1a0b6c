"""Several incidents in Markdown: a table of the groups, below it one of the deaths, ready to paste."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from analyzers.contracts.report import Death, InputFile, Report
from analyzers.render import deaths
from analyzers.render.uses import left_over

MOST_GROUPS, MOST_DEATHS = 30, 150  # a tracker refuses texts of more than 65,536 characters
OPEN_DEATHS = 12  # more of them are folded away
GROUP_HEADS = ("group", "seen", "what", "top frames", "when (UTC)")
DEATH_HEADS = ("#", "group", "PID", "when (UTC)", "sure", "top frame", "seen in")
FOLD = "<details><summary>{count} incidents, one a line</summary>\n\n{table}\n\n</details>"

Prose = Callable[[object], str]


def many(report: Report, prose: Prose) -> Iterator[str]:
    """Blocks of Markdown; nothing when there is one incident. ``prose`` makes foreign text inert and public.

    Inputs are not named: their names tell users, hosts and boots.
    """
    if not deaths.several(report):
        return
    shown = deaths.listed(report, MOST_GROUPS, MOST_DEATHS)
    yield f"## {prose(deaths.overview(report))}"
    yield _groups(report, shown, prose)
    yield from _deaths(report, shown, prose)
    explained = [
        f"- {prose(f'group {each.number}: {line}')}" for each in shown for line in each.group.explain
    ]
    if explained:
        yield "Why these are groups:\n\n" + "\n".join(explained[:MOST_GROUPS])
    left = left_over(report)
    if left:
        rows = [f"- {prose(f'{_kinds(items)}: {use}')}" for _, use, items in left[:MOST_GROUPS]]
        yield "Inputs that no incident has:\n\n" + "\n".join(rows)
    yield f"The rest of this report is about incident {report.incident} of {deaths.total(report)}."


def _kinds(items: Sequence[InputFile]) -> str:
    """`2 server-log, 1 core`: what they are called is not for the public."""
    return ", ".join(f"{number} {kind}" for kind, number in Counter(item.kind for item in items).items())


def _groups(report: Report, shown: Sequence[deaths.Shown], prose: Prose) -> str:
    rows = [
        (
            each.number,
            deaths.count(each.group),
            ": ".join(part for part in (deaths.title(each.group), each.group.title) if part),
            deaths.frames(each.group),
            deaths.period(each.group).replace(" UTC", ""),
        )
        for each in shown
    ]
    rest = len(report.incidents) - len(shown)
    return _table(GROUP_HEADS, rows, prose) + (f"\n\n{rest} more groups are in the JSON." if rest > 0 else "")


def _deaths(report: Report, shown: Sequence[deaths.Shown], prose: Prose) -> Iterator[str]:
    pattern = deaths.time_pattern(report)
    rows = [_row(death, each.number, pattern) for each in shown for death in each.deaths]
    if not rows:
        return
    table = _table(DEATH_HEADS, rows, prose)
    left_out = sum(each.left_out for each in shown)
    table += f"\n\n{left_out} more are in the JSON." if left_out else ""
    yield table if len(rows) <= OPEN_DEATHS else FOLD.format(count=len(rows), table=table)


def _row(death: Death, group: int, pattern: str) -> tuple[object, ...]:
    pid = "?" if death.pid is None else death.pid
    seen = ", ".join(death.witnesses) or "?"
    return (
        death.number,
        group,
        pid,
        deaths.when(death, pattern),
        deaths.sure(death),
        deaths.frame(death),
        seen,
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]], prose: Prose) -> str:
    lines = [heads, ["---"] * len(heads), *[[prose(cell) for cell in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
