"""The way into the catalogue. ``load_catalogue()`` and ``load_defects()`` read what ships, once;
``catalogue()`` and ``known_defects()`` add the packs and the local overlay of this machine.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from analyzers.catalogue.builds import build_number_of
from analyzers.catalogue.known import Catalogue, Defects
from analyzers.catalogue.model import QueueLayout
from analyzers.catalogue.overlay import laid_on, overlay_path, read_overlay
from analyzers.catalogue.packs import noted, with_packs
from analyzers.catalogue.pages import read_pages
from analyzers.catalogue.reading import (
    read_commit,
    read_defect,
    read_layout,
    read_proofs,
    read_sign,
    read_wheel,
)
from analyzers.catalogue.tables import Table, read_toml
from analyzers.errors import UserError

HERE = Path(__file__).parent
DEFECTS_FILE = "defects.toml"
ROUTES_FILE = "routes.toml"
CLASSES_FILE = "classes.toml"

__all__ = [
    "Catalogue",
    "Defects",
    "build_number_of",
    "catalogue",
    "known_defects",
    "load_catalogue",
    "load_defects",
]


def catalogue() -> Catalogue:
    """What this machine knows, with the pages: what ships, the packs, the local overlay."""
    return Catalogue(**vars(known_defects()), pages=load_catalogue().pages)


def known_defects() -> Defects:
    """What this machine knows: what ships, the packs, the local overlay. A part that cannot be read is left
    out and named in ``notes``: it never sinks a triage."""
    path = overlay_path()
    try:
        seen = path.stat() if path is not None else None
    except OSError:
        seen = None
    return _layered(path, (seen.st_mtime_ns, seen.st_size, seen.st_ino) if seen else None, tuple(sys.path))


@lru_cache(maxsize=4)
def _layered(path: Path | None, seen: tuple[int, ...] | None, _: tuple[str, ...]) -> Defects:
    known = with_packs(load_defects(), read_pack)
    if path is None or seen is None:
        return known
    try:
        witnesses = read_overlay(path)
    except UserError as error:
        return noted(known, f"the local catalogue overlay was left out: {error.what} ({error.where})")
    defects = tuple(laid_on(defect, witnesses) for defect in known.defects)
    strange = sorted({w.defect for w in witnesses} - {d.id for d in defects})
    for id in strange:
        known = noted(known, f"the local catalogue overlay names a defect nobody knows: {id}")
    version = f"{known.version}+local.{len(witnesses)}"
    return replace(known, defects=defects, local=witnesses, version=version)


@lru_cache(maxsize=4)
def load_catalogue(folder: Path = HERE) -> Catalogue:
    """Read defects.toml and classes.toml of ``folder``. Raises UserError with one line naming the entry."""
    known = load_defects(folder)
    return Catalogue(**vars(known), pages=read_pages(read_toml(folder / CLASSES_FILE)))


@lru_cache(maxsize=4)
def load_defects(folder: Path = HERE) -> Defects:
    """Only defects.toml of ``folder``: a verdict that names a defect needs no page (7 of 13 ms are saved)."""
    table = read_toml(folder / DEFECTS_FILE)
    proofs = read_proofs(_only(table, "proofs"))
    made = _defects(table, proofs, table.rows("layout", read_layout))
    return replace(made, routes_file=folder / ROUTES_FILE)


def read_pack(path: Path) -> Defects:
    """A pack's own file, in the form of defects.toml; its proofs and layouts may be the shipped ones."""
    table, shipped = read_toml(path), load_defects()
    proofs = {**shipped.proofs, **(read_proofs(_only(table, "proofs")) if "proofs" in table.data else {})}
    return _defects(table, proofs, (*table.rows("layout", read_layout), *shipped.layouts))


def _defects(table: Table, proofs: Mapping[str, str], layouts: tuple[QueueLayout, ...]) -> Defects:
    by_id = {layout.id: layout for layout in layouts}
    made = Defects(
        version=table.text("version"),
        dated=table.text("dated"),
        proofs=proofs,
        defects=table.rows("defect", lambda row: read_defect(row, proofs)),
        wheels=table.rows("wheel", lambda row: read_wheel(row, by_id)),
        layouts=layouts,
        signs=table.rows("sign", read_sign),
        commits=dict(table.rows("commit", read_commit)),
    )
    _check(table, made)
    return made


def _only(table: Table, key: str) -> Table:
    table.read.add(key)
    data = table.data.get(key)
    if not isinstance(data, dict):
        raise table.fail(f"'[{key}]' is missing")
    return Table(data, f"{table.where}, [{key}]")


def _check(table: Table, made: Defects) -> None:
    table.finish()
    for what, ids in (
        ("defect", [defect.id for defect in made.defects]),
        ("wheel", [wheel.build_id for wheel in made.wheels]),
        ("layout", [layout.id for layout in made.layouts]),
        ("sign", [sign.id for sign in made.every_sign()]),
    ):
        twice = {id for id in ids if ids.count(id) > 1}
        if twice:
            raise table.fail(f"the {what} '{min(twice)}' stands in it twice")
