"""From TOML tables to defects, known wheels and queue layouts; refuses what contradicts itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from analyzers.catalogue.model import (
    Advice,
    BuildRange,
    Defect,
    KnownBuild,
    LookAlike,
    Mark,
    QueueLayout,
    Reference,
    Witness,
)
from analyzers.catalogue.tables import Table
from analyzers.contracts.registry import CAUSES, CLASSES, PHASES

METHODS = ("measured", "source", "reported")
STATUSES = ("affected", "fixed", "absent")
DEPLOYMENTS = ("any", "systemd", "docker")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}|reported")
BUILD_ID = re.compile(r"[0-9a-f]{40}")
MANGLED = re.compile(r"_Z[\w.]+")


def read_advice(table: Table) -> Advice:
    where = table.choice("where", DEPLOYMENTS, "any")
    return Advice(table.text("text"), table.optional("command"), where)


def read_look_alike(table: Table) -> LookAlike:
    return LookAlike(table.text("what"), table.text("apart"))


def read_defect(table: Table, proofs: Mapping[str, str]) -> Defect:
    """One ``[[defect]]``. Raises UserError for an unknown id, an empty range or overlapping ranges."""
    return Defect(
        id=table.text("id"),
        name=table.text("name"),
        title=table.text("title"),
        summary=table.text("summary"),
        detail=table.text("detail"),
        cause=table.choice("cause", tuple(CAUSES)),
        classes=_known(table, "classes", CLASSES),
        phases=_known(table, "phases", PHASES),
        handlers=table.texts("handlers"),
        frames=table.texts("frames"),
        routes=table.texts("routes"),
        exposure=table.flag("exposure", True),
        fixed_in=table.optional_number("fixed_in"),
        references=table.rows("reference", _reference),
        look_alikes=table.rows("look_alike", read_look_alike),
        marks=table.rows("mark", _mark),
        builds=_ranges(table),
        proven_by=_proofs(table, proofs),
        not_enough=table.texts("not_enough"),
        advice=table.rows("advice", read_advice),
    )


def _known(table: Table, key: str, allowed: Mapping[str, str]) -> tuple[str, ...]:
    values = table.texts(key)
    for value in values:
        if value not in allowed:
            raise table.fail(f"'{key}' names '{value}', which the registry does not have")
    return values


def _reference(table: Table) -> Reference:
    return Reference(table.choice("kind", ("issue", "pull")), table.number("number"), table.text("note"))


def _mark(table: Table) -> Mark:
    symbol = table.text("symbol")
    if not MANGLED.fullmatch(symbol):
        raise table.fail("'symbol' is not a mangled C++ name")
    return Mark(symbol, table.flag("affected", True), table.text("builds"))


def _date(table: Table) -> str:
    value = table.text("date")
    if not DATE.fullmatch(value):
        raise table.fail("'date' must be YYYY-MM-DD or 'reported'")
    return value


def _witness(table: Table) -> Witness:
    method = table.choice("method", METHODS)
    return Witness(table.number("build"), method, _date(table), table.text("how"))


def _range(table: Table) -> BuildRange:
    witnesses = table.rows("witness", _witness)
    status = table.choice("status", STATUSES)
    row = BuildRange(status, table.number("first"), table.optional_number("last"), witnesses)
    if row.last is not None and row.last < row.first:
        raise table.fail(f"the range ends (b{row.last}) before it begins (b{row.first})")
    if not witnesses or any(witness.build not in row for witness in witnesses):
        raise table.fail("a range needs witnesses, and each must lie inside it")
    return row


def _ranges(table: Table) -> tuple[BuildRange, ...]:
    rows = table.rows("builds", _range)
    for before, after in pairwise(rows):
        if before.last is None or after.first <= before.last:
            raise table.fail(f"build ranges overlap or are out of order at b{after.first}")
    return rows


def _proofs(table: Table, proofs: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    groups = table.rows("proof", lambda row: row.texts("any_of"))
    for name in (name for group in groups for name in group):
        if name not in proofs:
            raise table.fail(f"proof '{name}' is not in [proofs]")
    if not all(groups):
        raise table.fail("an empty proof group can never be held")
    return groups


def read_proofs(table: Table) -> dict[str, str]:
    """``[proofs]``: proof id to the sentence that says what must have been seen."""
    return {name: table.text(name) for name in table.data}


def read_layout(table: Table) -> QueueLayout:
    members = {key: table.number(key) for key in table.data if key not in ("id", "size")}
    size = table.number("size")
    if any(not 0 <= offset < size for offset in members.values()):
        raise table.fail("a member lies outside the object")
    return QueueLayout(table.text("id"), size, members)


def read_wheel(table: Table, layouts: Mapping[str, QueueLayout]) -> KnownBuild:
    """One ``[[wheel]]``, recognised by the build-id of its shared object."""
    build_id = table.text("build_id")
    if not BUILD_ID.fullmatch(build_id):
        raise table.fail("'build_id' must be 40 lower-case hex digits")
    return KnownBuild(
        build_id=build_id,
        distribution=table.text("distribution"),
        version=table.text("version"),
        build=table.number("build"),
        layout=layouts[table.choice("layout", tuple(layouts))],
        method=table.choice("method", METHODS),
        date=_date(table),
        defects={key: table.choice(key, STATUSES) for key in table.data if re.fullmatch(r"D\d+", key)},
    )
