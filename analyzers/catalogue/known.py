"""Everything known, as one object that answers questions: the defects, the builds, the help pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from analyzers.catalogue.builds import standing_between, standing_of
from analyzers.catalogue.model import (
    Defect,
    KnownBuild,
    LocalWitness,
    Mark,
    Page,
    ProbeSafety,
    QueueLayout,
    Recognised,
    Sign,
    Standing,
)
from analyzers.catalogue.overlay import found_here, laid_on_routes
from analyzers.catalogue.pages import defect_page, merged
from analyzers.catalogue.reach import Routes, load_routes
from analyzers.catalogue.recognise import recognise
from analyzers.catalogue.routes import probe_safety, route_standing, safe_probes

NEAR_ENOUGH = 0.5  # difflib ratio: lets "segv-sleep" find SEGV-UAF-SLEEP and leaves "zzz" with nothing
SUGGESTIONS = 3
PREFIX = 3  # letters typed before "everything that begins so" is a help and not a flood
TOPIC_LIMIT = 80  # characters; the longest id has 24


@dataclass(frozen=True)
class Defects:
    """The defects and builds known, as data. ``version`` goes into each report; ``dated`` is the day it
    speaks for. ``packs`` and ``local`` are what was laid on top; ``notes`` say what could not be."""

    version: str
    dated: str
    proofs: Mapping[str, str]
    defects: tuple[Defect, ...]
    wheels: tuple[KnownBuild, ...]
    layouts: tuple[QueueLayout, ...]
    signs: tuple[Sign, ...] = ()
    commits: Mapping[str, int] = field(default_factory=dict)
    packs: tuple[str, ...] = ()
    local: tuple[LocalWitness, ...] = ()
    notes: tuple[str, ...] = ()
    routes_file: Path | None = None

    def defect(self, id: str) -> Defect | None:
        """The defect with this id (D1) or name (stale-capture), in any case."""
        wanted = id.strip().casefold()
        return next((d for d in self.defects if wanted in (d.id.casefold(), d.name.casefold())), None)

    def known_build(self, build_id: str | None) -> KnownBuild | None:
        """The released wheel whose shared object carries this GNU build-id."""
        wanted = (build_id or "").strip().casefold()
        return next((wheel for wheel in self.wheels if wheel.build_id == wanted), None)

    def every_sign(self) -> Iterator[Sign]:
        """All names to look for in a binary: the marks of the defects, and what only dates it."""
        for defect in self.defects:
            yield from defect.marks
        yield from self.signs

    def mark(self, id: str) -> tuple[Defect, Mark] | None:
        """The defect that the mark of this id, or with exactly this mangled name, tells about."""
        pairs = ((defect, mark) for defect in self.defects for mark in defect.marks)
        return next((pair for pair in pairs if id in (pair[1].id, pair[1].symbol)), None)

    def affected(self, defect_id: str, build_number: int | None) -> Standing:
        """Where a build stands with a defect, and why. Raises KeyError for an unknown defect."""
        return standing_of(self._demanded(defect_id), build_number)

    def affected_wheel(self, defect_id: str, build_id: str | None) -> Standing | None:
        """Like ``affected`` for one binary, told by its build-id: what this machine's verifier found in it,
        then a known wheel's own entry, which outranks the ranges; None for a stranger."""
        wheel = self.known_build(build_id)
        own = found_here(self.local, defect_id, build_id)
        seen = wheel is not None and self.affected(defect_id, wheel.build).exposed
        if own is not None and (own.exposed or not seen):  # a clean run does not take back what was seen
            return own
        if wheel is None:
            return None
        status = wheel.defects.get(defect_id.upper())
        if status is None:
            return self.affected(defect_id, wheel.build)
        how = f"b{wheel.build}; symbol table, {wheel.method} {wheel.date}"
        return Standing(status, f"{defect_id} {status} in {wheel.distribution} {wheel.version} ({how})")

    def recognise(
        self, build_id: str | None, marks: Iterable[str] = (), version_text: str | None = None
    ) -> Recognised:
        """Which build something is, by the surest there is: the build-id of a known wheel, then ``marks``
        (ids of ``every_sign()`` found in the binary), then commit, number or version text."""
        signs = tuple(self.every_sign())
        return recognise(self.known_build(build_id), signs, marks, self.commits, version_text)

    def standing(self, defect_id: str, found: Recognised, marks: Iterable[str] = ()) -> Standing:
        """Where a recognised build stands: by its wheel, its number, or the range it must lie in.

        ``marks`` of the defect itself, found in the binary, outrank a number it only claims.
        """
        defect, names = self._demanded(defect_id), frozenset(marks)
        if found.wheel is not None:
            return self.affected_wheel(defect.id, found.wheel.build_id) or self.affected(
                defect.id, found.build
            )
        told = {mark.affected for mark in defect.marks if mark.id in names}
        if len(told) == 1:
            status = "affected" if told.pop() else "fixed"
            return Standing(status, f"{defect.id} {status} by the names in the binary itself")
        if found.build is not None:
            return standing_of(defect, found.build)
        return standing_between(defect, found.first, found.last)

    def route_standing(self, defect_id: str, route: str, build: int | None) -> Standing:
        """Whether a defect is reached through a route in a build. Raises KeyError for an unknown defect."""
        defect = self._demanded(defect_id)
        reach = laid_on_routes(
            (*self._routes.reach.get(defect.id, ()), *defect.through), defect.id, self.local
        )
        return route_standing(replace(defect, through=reach), route, build)

    def probe_safety(self, build: int | None, route: str) -> ProbeSafety | None:
        """What a GET of ``route`` does to a server of ``build``; None when nobody measured it."""
        return probe_safety(self._routes.probes, build, route)

    def safe_probes(self, build: int | None) -> tuple[str, ...]:
        """Routes that leave a server of ``build`` alone; for an unknown build only GET /health."""
        return safe_probes(self._routes.probes, build)

    @property
    def _routes(self) -> Routes:
        return load_routes(self.routes_file) if self.routes_file else Routes({}, ())

    def _demanded(self, defect_id: str) -> Defect:
        defect = self.defect(defect_id)
        if defect is None:
            raise KeyError(defect_id)
        return defect


@dataclass(frozen=True)
class Catalogue(Defects):
    """Everything known: the defects and the help pages."""

    pages: tuple[Page, ...] = ()

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
