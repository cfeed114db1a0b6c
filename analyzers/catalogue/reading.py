"""From TOML tables to defects, known wheels and queue layouts; refuses what contradicts itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from analyzers.catalogue.model import (
    Advice,
    BuildRange,
    Defect,
    KnownBuild,
    LookAlike,
    Mark,
    ProbeSafety,
    QueueLayout,
    Reference,
    Sign,
    Through,
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
SYMBOL = re.compile(r"[A-Za-z_][\w.]{3,299}")
COMMIT = re.compile(r"[0-9a-f]{7,40}")
ROUTE = re.compile(r"(GET|POST) /[\w/:.-]+")


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
        through=table.rows("through", _through),
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
    return Mark(
        **_dated_name(table, symbol), affected=table.flag("affected", True), builds=table.text("builds")
    )


def read_sign(table: Table) -> Sign:
    """One ``[[sign]]``: a symbol name that dates a binary."""
    symbol = table.text("symbol")
    if not SYMBOL.fullmatch(symbol):
        raise table.fail("'symbol' is not a symbol's name")
    made = Sign(**_dated_name(table, symbol), how=table.text("how"))
    if made.after is None and made.before is None:
        raise table.fail("a sign says 'after' or 'before' which build")
    return made


def _dated_name(table: Table, symbol: str) -> dict[str, Any]:
    after, before = table.optional_number("after"), table.optional_number("before")
    if after is not None and before is not None and before <= after + 1:
        raise table.fail(f"no build lies above b{after} and below b{before}")
    return {
        "id": table.text("id"),
        "symbol": symbol,
        "after": after,
        "before": before,
        "prefix": table.flag("prefix", False),
    }


def _route(table: Table, text: str) -> str:
    if not ROUTE.fullmatch(text):
        raise table.fail("a route is a method and a path, like 'POST /tokenize'")
    return text


def _through(table: Table) -> Through:
    """One ``[[defect.through]]``: routes, and the builds in which they reach the defect."""
    routes = tuple(_route(table, text) for text in table.texts("routes"))
    if not routes:
        raise table.fail("'routes' is empty")
    return Through(routes, _ranges(table))


def read_reach(table: Table) -> tuple[str, Through]:
    """One ``[[reach]]`` of routes.toml: the defect's id, and one ``through`` row for it."""
    return table.text("defect"), _through(table)


def read_probes(table: Table) -> tuple[ProbeSafety, ...]:
    """One ``[[probe]]``: what a route does, a row for each range of builds measured alike."""
    routes = tuple(_route(table, text) for text in table.texts("routes"))
    if not routes:
        raise table.fail("a probe needs routes")
    rows = table.rows("builds", lambda row: tuple(_probe(row, route) for route in routes))
    for before, after in pairwise(row[0] for row in rows):
        if after.first <= before.last:
            raise table.fail(f"build ranges overlap or are out of order at b{after.first}")
    return tuple(probe for row in rows for probe in row)


def _probe(table: Table, route: str) -> ProbeSafety:
    made = ProbeSafety(
        route=route,
        first=table.number("first"),
        last=table.number("last"),
        wakes=table.required_flag("wakes"),
        resets=table.required_flag("resets"),
        blocks=table.required_flag("blocks"),
        moves_sleep=table.required_flag("moves_sleep"),
        method=table.choice("method", METHODS),
        date=_date(table),
        how=table.text("how"),
    )
    if made.last < made.first:
        raise table.fail(f"the range ends (b{made.last}) before it begins (b{made.first})")
    return made


def read_commit(table: Table) -> tuple[str, int]:
    """One ``[[commit]]``: an upstream commit and the build number it has."""
    commit = table.text("id")
    if not COMMIT.fullmatch(commit):
        raise table.fail("'id' must be 7 to 40 lower-case hex digits")
    table.choice("method", METHODS)
    _date(table)
    return commit, table.number("build")


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
