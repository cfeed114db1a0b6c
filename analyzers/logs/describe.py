"""``kubectl describe``: a pod's containers, their states and how each last ended."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import ExitFact

FORM = "describe"
SHARE = 0.8  # of the lines are keys with values; the rest are arguments, conditions and events
_ROW = re.compile(r" {0,16}[A-Z][\w ./()-]{0,60}:(?: .*)?")
_CONTAINER = re.compile(r"  (?P<name>[a-z0-9][a-z0-9-]{0,62}):\s*")
_END = re.compile(r" {2,16}(?:Exit Code: +\d{1,3}|Reason: +OOMKilled)\s*")
_HEAD = ("Name:", "Containers:")


def looks_like(sample: Sequence[str]) -> bool:
    """True for the whole output, or the part of it that tells of an end."""
    lines = [line for line in sample if line.strip()]
    whole = bool(lines) and lines[0].startswith(_HEAD[0]) and any(x.startswith(_HEAD[1]) for x in lines)
    rows = sum(_ROW.fullmatch(line) is not None for line in lines)
    return any(_END.fullmatch(line) for line in lines) and (whole or rows >= SHARE * len(lines))


def with_units(sample: Sequence[str], outside: Sequence[Evidence], believed: bool) -> tuple[Evidence, ...]:
    """The ends with the container each stands under; client-controllable unless ``believed``."""
    units, now = {}, None
    for number, line in enumerate(sample, 1):
        heading = _CONTAINER.fullmatch(line)
        now = heading["name"] if heading else now
        units[number] = now
    return tuple(_named(item, units, believed) for item in outside)


def _named(item: Evidence, units: dict[int, str | None], believed: bool) -> Evidence:
    if item.kind != ExitFact.KIND:
        return item
    unit = units.get(int(item.source.rpartition(":")[2]))
    data = {**item.data, "unit": unit} if unit else item.data
    return item.model_copy(update={"data": data, "trust": item.trust if believed else Trust.CLIENT})
