"""Through which routes a defect is reached in a build, and how that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from analyzers.catalogue.builds import standing_between
from analyzers.catalogue.known import Defects
from analyzers.catalogue.model import Defect, Recognised, Through
from analyzers.catalogue.reach import load_routes

MEASURED, SOURCE, PRESUMED, UNKNOWN = "measured", "source", "presumed", "unknown"
ORDER = (MEASURED, SOURCE, PRESUMED, UNKNOWN)
WORDS = {SOURCE: "read in the source"}
KNOWN = {
    "affected": MEASURED,
    "fixed": MEASURED,
    "absent": MEASURED,
    "presumed-affected": PRESUMED,
    "presumed-fixed": PRESUMED,
    "unmeasured": UNKNOWN,
}


@dataclass(frozen=True)
class Reached:
    """``known``: measured | source (read in that build's source) | presumed | unknown."""

    known: str
    routes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{WORDS.get(self.known, self.known)}: {', '.join(self.routes)}"


def reached(
    known: Defects, defect: Defect, found: Recognised, marks: tuple[str, ...] = ()
) -> tuple[Reached, ...]:
    """Routes by how they are known, the surest first; those that are known not to reach it left out.

    ``marks`` of the binary: one that tells the defect narrows the builds it can be.
    """
    told = any(mark.affected and mark.id in marks for mark in defect.marks)
    rows = (*_table(known).get(defect.id, ()), *defect.through)
    sorted_out: dict[str, list[str]] = {word: [] for word in ORDER}
    for through in rows:
        for route in through.routes:
            word = _how(known, defect, through, route, found)
            word = PRESUMED if word == UNKNOWN and told and _may(through, found) else word
            if word is not None and route not in sorted_out[word]:
                sorted_out[word].append(route)
    if not rows:
        sorted_out[UNKNOWN] += defect.routes
    return tuple(Reached(word, tuple(routes)) for word, routes in sorted_out.items() if routes)


def _table(known: Defects) -> Mapping[str, tuple[Through, ...]]:
    return load_routes(known.routes_file).reach if known.routes_file else {}


def _may(through: Through, found: Recognised) -> bool:
    """Whether a build that it can be is one where these routes reach it."""
    rows = (row for row in through.builds if row.status == "affected")
    return any(
        (found.last or row.first) >= row.first and (row.last or found.first or 0) >= (found.first or 0)
        for row in rows
    )


def _how(known: Defects, defect: Defect, through: Through, route: str, found: Recognised) -> str | None:
    """None when the route is known, or presumed, not to reach the defect."""
    if found.build is not None:
        said = known.route_standing(defect.id, route, found.build)
    else:
        said = standing_between(replace(defect, builds=through.builds), found.first, found.last)
    if said.status == "unmeasured":
        return UNKNOWN
    if not said.exposed:
        return None
    if said.status == "presumed-affected":
        return PRESUMED
    seen = [w.method for row in through.builds for w in row.witnesses if w.build == found.build]
    return SOURCE if seen and all(method == "source" for method in seen) else MEASURED
