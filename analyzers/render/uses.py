"""What became of each input: read and joined, to which incident, or not used and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from analyzers.contracts.report import InputFile, Report
from analyzers.render import deaths

MAX_NUMBERS = 6  # incidents that are named for one input
MAX_NAMES = 4  # inputs of one fate that are named in one row
UNUSED = "unused"  # kind of a file in a folder that is no evidence by its content
CONTAINERS = ("folder", "archive")  # listed beside what they hold
# Their facts name the place inside them that told it, so that nothing can be said of the whole.
WITHIN = ("bundle", "journal", "issue")
FACTS = " facts of "


def use_of(item: InputFile, report: Report) -> str:
    """`read, of incidents 1, 3`, or `read, of no incident: they do not say to which ...`.

    A single incident's input of which nothing stands in the report is said to be just that.
    """
    why = "; ".join(_reasons(item.name, report))
    if item.kind == UNUSED:
        return f"not used: {why or 'its content is no evidence'}"
    if item.kind in CONTAINERS:
        return "what it holds is listed by itself"
    where = _where(item.name, report)
    if not where and item.kind in WITHIN:
        return f"read; not all of it: {why}" if why else "read"
    rest = f"; not all of it: {why}" if where and why else f": {why}" if why else ""
    if deaths.several(report):
        return f"read, of {where or 'no incident'}{rest}"
    return f"read, {where or 'nothing of it stands in this report'}{rest}"


def left_over(report: Report) -> list[tuple[str, str, list[InputFile]]]:
    """(names, use, those inputs) of the inputs that no incident of several has: a table's rows do not name
    them. Inputs of one fate are one row."""
    found: dict[str, list[InputFile]] = {}
    for item in report.inputs if deaths.several(report) else ():
        if item.kind not in (*CONTAINERS, *WITHIN) and not _where(item.name, report):
            found.setdefault(use_of(item, report), []).append(item)
    return [(_listed([item.name for item in items]), use, items) for use, items in found.items()]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _where(name: str, report: Report) -> str:
    """The incidents that an input told of, empty for none."""
    if not deaths.several(report):
        return "joined" if any(_is_of(source, name) for source in _sources(report)) else ""
    numbers = [
        death.number
        for group in report.incidents
        for death in group.deaths
        if any(_is_of(given, name) for given in death.inputs)
    ]
    if not numbers:
        return ""
    told = ", ".join(str(number) for number in sorted(numbers)[:MAX_NUMBERS])
    more = f" and {len(numbers) - MAX_NUMBERS} more" if len(numbers) > MAX_NUMBERS else ""
    return f"incident{'s' if len(numbers) > 1 else ''} {told}{more}"


def _sources(report: Report) -> Iterator[str]:
    yield from (item.source for item in report.verdict.evidence)
    yield from (item.source or "" for item in report.timeline)
    for offset in report.clocks:
        for clock in (offset.clock, offset.to):
            yield clock.partition("(")[2].removesuffix(")")
    if report.threads and any(thread.rung for thread in report.threads):
        yield from (item.name for item in report.inputs if item.kind == "core")


def _is_of(source: str, name: str) -> bool:
    return source == name or source.startswith((f"{name}:", f"{name}/"))


def _reasons(name: str, report: Report) -> Iterator[str]:
    """What the gaps say of this very input."""
    for gap in report.gaps:
        subject = gap.what.partition(FACTS)[2] or gap.what
        if subject == name or (FACTS not in gap.what and _named(name, gap.what)):
            yield gap.why.strip()


def _named(name: str, what: str) -> bool:
    """`anything telling in NAME`, `whether NAME is the log of ...`, `NAME as a death of its own`."""
    return re.search(rf"(?<!\S){re.escape(name)}(?=[:,;]?(?:\s|$))", what) is not None
