"""The way into the catalogue: ``load_catalogue()`` reads the two TOML files once and answers questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from analyzers.catalogue.builds import build_number_of, standing_of
from analyzers.catalogue.model import Defect, KnownBuild, Mark, Page, QueueLayout, Standing
from analyzers.catalogue.pages import defect_page, merged, read_pages
from analyzers.catalogue.reading import read_defect, read_layout, read_proofs, read_wheel
from analyzers.catalogue.tables import Table, read_toml

HERE = Path(__file__).parent
DEFECTS_FILE = "defects.toml"
CLASSES_FILE = "classes.toml"
NEAR_ENOUGH = 0.5  # difflib ratio: lets "segv-sleep" find SEGV-UAF-SLEEP and leaves "zzz" with nothing
SUGGESTIONS = 3
PREFIX = 3  # letters typed before "everything that begins so" is a help and not a flood
TOPIC_LIMIT = 80  # characters; the longest id has 24

__all__ = ["Catalogue", "Defects", "build_number_of", "catalogue", "load_catalogue", "load_defects"]


@dataclass(frozen=True)
class Defects:
    """The defects and builds known, as data. ``version`` goes into each report; ``dated`` is the day it
    speaks for."""

    version: str
    dated: str
    proofs: Mapping[str, str]
    defects: tuple[Defect, ...]
    wheels: tuple[KnownBuild, ...]
    layouts: tuple[QueueLayout, ...]

    def defect(self, id: str) -> Defect | None:
        """The defect with this id (D1) or name (stale-capture), in any case."""
        wanted = id.strip().casefold()
        return next((d for d in self.defects if wanted in (d.id.casefold(), d.name.casefold())), None)

    def known_build(self, build_id: str | None) -> KnownBuild | None:
        """The released wheel whose shared object carries this GNU build-id."""
        wanted = (build_id or "").strip().casefold()
        return next((wheel for wheel in self.wheels if wheel.build_id == wanted), None)

    def mark(self, symbol: str) -> tuple[Defect, Mark] | None:
        """The defect this mangled name tells about, and what it tells."""
        pairs = ((defect, mark) for defect in self.defects for mark in defect.marks)
        return next((pair for pair in pairs if pair[1].symbol == symbol), None)

    def affected(self, defect_id: str, build_number: int | None) -> Standing:
        """Where a build stands with a defect, and why. Raises KeyError for an unknown defect."""
        defect = self.defect(defect_id)
        if defect is None:
            raise KeyError(defect_id)
        return standing_of(defect, build_number)

    def affected_wheel(self, defect_id: str, build_id: str | None) -> Standing | None:
        """Like ``affected`` for a known wheel, whose own entry outranks the ranges; else None."""
        wheel = self.known_build(build_id)
        if wheel is None:
            return None
        status = wheel.defects.get(defect_id.upper())
        if status is None:
            return self.affected(defect_id, wheel.build)
        how = f"b{wheel.build}; symbol table, {wheel.method} {wheel.date}"
        return Standing(status, f"{defect_id} {status} in {wheel.distribution} {wheel.version} ({how})")


@dataclass(frozen=True)
class Catalogue(Defects):
    """Everything known: the defects and the help pages."""

    pages: tuple[Page, ...]

    def explain(self, id: str) -> Page | None:
        """The page of an id of any kind, upper or lower case; None when there is none.

        ``phase:asleep`` picks one meaning; a bare ``asleep`` gives all of them on one page.
        """
        kind, _, rest = id.strip().casefold().rpartition(":")
        defect = self.defect(rest) if kind in ("", "defect") else None
        if defect is not None:
            return defect_page(defect, self.proofs)
        found = [p for p in self.pages if p.id.casefold() == rest and kind in ("", p.kind)]
        return merged(found) if found else None

    def ids(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Kind to (id, one line) pairs, in reading order: what ``explain`` without a topic lists."""
        listed: dict[str, list[tuple[str, str]]] = {"defect": [(d.id, d.title) for d in self.defects]}
        for page in self.pages:
            listed.setdefault(page.kind, []).append((page.id, page.title))
        return {kind: tuple(rows) for kind, rows in listed.items()}

    def suggest(self, topic: str) -> tuple[str, ...]:
        """Up to three ids that resemble ``topic``, the nearest first."""
        from difflib import get_close_matches  # only a mistyped topic needs it

        wanted = topic.strip().casefold()[:TOPIC_LIMIT]
        names = {id.casefold(): id for rows in self.ids().values() for id, _ in rows}
        names.update({defect.name.casefold(): defect.id for defect in self.defects})
        near = get_close_matches(wanted, names, n=SUGGESTIONS, cutoff=NEAR_ENOUGH)
        begun = [name for name in names if len(wanted) >= PREFIX and name.startswith(wanted)]
        return tuple(dict.fromkeys(names[name] for name in (*begun, *near)))[:SUGGESTIONS]


def catalogue() -> Catalogue:
    """What this machine knows: the shipped catalogue with everything laid on top of it."""
    return load_catalogue()


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
    layouts = table.rows("layout", read_layout)
    by_id = {layout.id: layout for layout in layouts}
    made = Defects(
        version=table.text("version"),
        dated=table.text("dated"),
        proofs=proofs,
        defects=table.rows("defect", lambda row: read_defect(row, proofs)),
        wheels=table.rows("wheel", lambda row: read_wheel(row, by_id)),
        layouts=layouts,
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
    ):
        twice = {id for id in ids if ids.count(id) > 1}
        if twice:
            raise table.fail(f"the {what} '{min(twice)}' stands in it twice")
