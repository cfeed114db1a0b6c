"""The local overlay: what this machine's own verifier found, laid on top of the shipped ranges.

It narrows and extends: a build that showed a defect is a witness that it is affected; a build that stayed
clean speaks for itself alone. Only stock builds speak for a number; others are told by their build-id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from analyzers.catalogue.model import BuildRange, Defect, LocalWitness, Standing, Through, Witness
from analyzers.catalogue.tables import Table, read_toml
from analyzers.errors import UserError

SCHEMA = 1
STATUSES = ("affected", "fixed")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
BUILD_ID = re.compile(r"[0-9a-f]{8,128}")
SHOWN = ("affected",)  # a clean run says nothing of a route it did not choose to hit


def overlay_path() -> Path | None:
    """``$XDG_DATA_HOME/llama-blackbox/catalogue/overlay.toml`` (``~/.local/share`` when unset); None for a
    user without a home. It need not exist."""
    base = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):  # the base directory specification: a relative value is ignored
        try:
            base = str(Path.home() / ".local" / "share")
        except RuntimeError:
            return None
    return Path(base, "llama-blackbox", "catalogue", "overlay.toml")


def read_overlay(path: Path) -> tuple[LocalWitness, ...]:
    """Every witness of the file. Raises UserError, in one line, for anything that is no overlay."""
    try:
        return _read(path)
    except UserError as error:
        raise UserError(
            error.what,
            where=str(path) if error.where == path.name else f"{path.parent}/{error.where}",
            remedy="correct it, or move it away; `verify --update-catalogue` begins a new one",
        ) from None


def _read(path: Path) -> tuple[LocalWitness, ...]:
    if not path.is_file():  # a pipe by that name would hold the reader for ever
        raise UserError("is no file", where=path.name, remedy="")
    table = read_toml(path)
    if table.number("schema") != SCHEMA:
        raise table.fail(f"'schema' is not {SCHEMA}: it was written by another version")
    witnesses = table.rows("witness", _witness)
    table.finish()
    return witnesses


def _witness(table: Table) -> LocalWitness:
    made = LocalWitness(
        defect=table.text("defect"),
        status=table.choice("status", STATUSES),
        build=table.optional_number("build"),
        build_id=table.optional("build_id"),
        stock=table.required_flag("stock"),
        date=table.text("date"),
        how=table.text("how"),
        trials=table.number("trials"),
        bound=table.optional_real("bound"),
        routes=table.texts("routes"),
    )
    if made.build_id is not None and not BUILD_ID.fullmatch(made.build_id):
        raise table.fail("'build_id' must be lower-case hex digits")
    if made.build_id is None and not (made.stock and made.build is not None):
        raise table.fail("a witness names a stock build or a build-id")
    if not DAY.fullmatch(made.date) or made.trials < 1:
        raise table.fail("'date' must be YYYY-MM-DD, and 'trials' at least 1")
    if made.status == "fixed" and (made.bound is None or not 0 < made.bound < 1):
        raise table.fail("a clean run says how often the defect can still be there ('bound')")
    return made


def laid_on(defect: Defect, witnesses: Iterable[LocalWitness]) -> Defect:
    """``defect`` with the stock builds of ``witnesses`` in its ranges."""
    builds = defect.builds
    for each in _stock(defect.id, witnesses):
        builds = _with_witness(builds, each)
    return replace(defect, builds=builds)


def laid_on_routes(
    through: tuple[Through, ...], defect: str, witnesses: Iterable[LocalWitness]
) -> tuple[Through, ...]:
    """The routes with the builds in which they showed the defect here."""
    for each in _stock(defect, witnesses):
        if each.status in SHOWN:
            through = tuple(part for row in through for part in _reached(row, each))
    return through


def found_here(witnesses: Iterable[LocalWitness], defect: str, build_id: str | None) -> Standing | None:
    """This machine's own finding on exactly this binary; one that showed the defect outranks clean runs."""
    wanted = (build_id or "").strip().casefold()
    own = [w for w in witnesses if w.build_id == wanted and w.defect.casefold() == defect.casefold()]
    if not own:
        return None
    best = next((w for w in reversed(own) if w.status == "affected"), own[-1])
    told = f"{best.how}{_bound(best)} (measured, {best.date}, local)"
    return Standing(best.status, f"{best.defect} {best.status} here: {told}")


def _bound(each: LocalWitness) -> str:
    return f", at most {each.bound:.1%} at 95 %" if each.bound is not None else ""


def _stock(defect: str, witnesses: Iterable[LocalWitness]) -> list[LocalWitness]:
    own = [each for each in witnesses if each.defect == defect and each.stock and each.build is not None]
    return sorted(own, key=lambda each: each.status)  # "affected" first: it outranks a clean run


def _reached(row: Through, each: LocalWitness) -> Iterable[Through]:
    shown = tuple(route for route in row.routes if route in each.routes)
    rest = tuple(route for route in row.routes if route not in each.routes)
    if shown:
        yield Through(shown, _with_witness(row.builds, each))
    if rest:
        yield replace(row, routes=rest)


def _with_witness(rows: tuple[BuildRange, ...], each: LocalWitness) -> tuple[BuildRange, ...]:
    assert each.build is not None  # noqa: S101 - the caller chose those with a number
    seen = Witness(each.build, "measured", each.date, f"{each.how}{_bound(each)}", local=True)
    row = next((row for row in rows if seen.build in row), None)
    if row is None:
        return _sorted((*_extended(rows, seen, each.status),))
    if row.status == each.status:
        return tuple(replace(r, witnesses=(*r.witnesses, seen)) if r is row else r for r in rows)
    if each.status == "fixed" and any(w.build == seen.build for w in row.witnesses):
        return rows  # a clean run does not take back what was seen
    others = tuple(r for r in rows if r is not row)
    return _sorted((*others, *_split(row, seen, each.status)))


def _extended(rows: tuple[BuildRange, ...], seen: Witness, status: str) -> tuple[BuildRange, ...]:
    """Affected builds on both sides of a gap, and nothing else between, make one range."""
    below = [row for row in rows if row.last is not None and row.last < seen.build]
    nearest = max(below, key=lambda row: row.first, default=None)
    if status == "affected" and nearest is not None and nearest.status == "affected":
        longer = replace(nearest, last=seen.build, witnesses=(*nearest.witnesses, seen))
        return tuple(longer if row is nearest else row for row in rows)
    return (*rows, BuildRange(status, seen.build, seen.build, (seen,)))


def _split(row: BuildRange, seen: Witness, status: str) -> Iterable[BuildRange]:
    """The range with one build of another status cut out of it. What lies above an affected build is fixed
    again only where somebody saw it; below and above a clean one the range stays what it was."""
    below = tuple(w for w in row.witnesses if w.build < seen.build)
    above = tuple(w for w in row.witnesses if w.build > seen.build)
    if row.first < seen.build:
        yield replace(row, last=seen.build - 1, witnesses=below or row.witnesses)
    yield BuildRange(status, seen.build, seen.build, (seen,))
    if status == "fixed" and (row.last is None or row.last > seen.build):
        yield replace(row, first=seen.build + 1, witnesses=above or row.witnesses)
    elif above and above[0].build in row:
        yield replace(row, first=above[0].build, witnesses=above)


def _sorted(rows: tuple[BuildRange, ...]) -> tuple[BuildRange, ...]:
    return tuple(sorted(rows, key=lambda row: row.first))
