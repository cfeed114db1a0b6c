"""Route-matrix cells as kinds with a letter and a word, and rows merged and put in order for showing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analyzers.contracts.routes import (
    ABSENT,
    AWAKE,
    BROKEN,
    DANGEROUS,
    KEEPS_AWAKE,
    RESETS,
    SAFE,
    UNKNOWN,
    WAKES,
    RouteBuild,
    RouteCell,
    RouteMatrix,
    RouteRow,
    is_bad,
    is_silent,
    meaning,
)

# kind -> (letter inside the square, word of the legend). Nothing is told by colour alone.
KINDS: dict[str, tuple[str, str]] = {
    "quiet": ("", "leaves the server as it is"),
    "answered": ("·", "answered when the model was there"),
    "resets": ("R", "puts the idle timer back"),
    "wakes": ("W", "wakes the server"),
    "bad": ("×", "crash, wrong answer or no answer"),
    "missed": ("?", "state not reached"),
    "absent": ("–", "no such route in this build"),
}
FIRST_ERROR = 400
STATE_LETTERS = {"awake": "a", "asleep": "s", "unloading": "u", "waking": "w", "two-wakers": "2"}
SECTIONS = {
    SAFE: "Safe to poll",
    RESETS: "Keeps an awake server awake, never wakes it",
    WAKES: "Wakes the server, does not keep it awake",
    KEEPS_AWAKE: "Wakes the server and keeps it awake",
    DANGEROUS: "Went wrong in some state",
    UNKNOWN: "Not enough seen",
    ABSENT: "Gone from the newest build shown",
}


@dataclass(frozen=True)
class Square:
    """One cell as it is drawn. ``broken``: it breaks what the documentation promises."""

    kind: str
    broken: bool
    words: str


@dataclass(frozen=True)
class Line:
    """Aliases of one handler that behave alike in every build. ``squares``: build → state → square.

    ``refused``: the status with which the newest build that has it refuses it even when awake.
    """

    routes: tuple[str, ...]
    section: str
    refused: int | None
    squares: tuple[tuple[Square, ...], ...]

    @property
    def label(self) -> str:
        more = f" +{len(self.routes) - 1}" if len(self.routes) > 1 else ""
        return self.routes[0] + more + (f" ({self.refused})" if self.refused else "")


def square(row: RouteRow | None, state: str) -> Square:
    """What stands at ``state`` of a row; None is a route that was not asked."""
    if row is not None and row.absent:
        return Square("absent", False, "no such route")
    cell = row.cell(state) if row is not None else None
    if cell is None:
        return Square("missed", False, "not asked")
    return Square(_kind(cell), cell.promise == BROKEN, _words(cell))


def _kind(cell: RouteCell) -> str:
    if is_bad(cell):
        return "bad"
    if not cell.reached or is_silent(cell):
        return "missed"
    if cell.state == AWAKE:
        return {True: "resets", False: "quiet", None: "missed"}[cell.resets]
    if cell.wakes is None:
        return "answered"
    return "wakes" if cell.wakes else "quiet"


def _words(cell: RouteCell) -> str:
    parts = [cell.outcome]
    parts += [f"HTTP {cell.status}"] if cell.status else []
    parts += [cell.defect] if cell.defect else []
    parts += [f"{cell.ms:g} ms"] if cell.ms is not None else []
    parts += ["breaks its promise"] if cell.promise == BROKEN else []
    return ", ".join(parts)


def lines_of(matrix: RouteMatrix, builds: list[RouteBuild]) -> list[Line]:
    """Routes in the order of the sections, aliases that look alike merged into one line."""
    merged: dict[object, list[str]] = {}
    made: dict[object, Line] = {}
    for route in matrix.routes():
        rows = [build.row(route) for build in builds]
        squares = tuple(tuple(square(row, state) for state in matrix.states) for row in rows)
        known = [row for row in rows if row is not None]
        section = meaning(rows[-1]) if rows else UNKNOWN
        handler = known[0].handler if known else route
        refused = _refused(known)
        key = (handler, route.split(" ")[0], section, refused, _looks(squares))
        merged.setdefault(key, []).append(route)
        made[key] = Line(tuple(merged[key]), section, refused, squares)
    order = list(SECTIONS)
    return sorted(made.values(), key=lambda line: order.index(line.section))


def _refused(rows: list[RouteRow]) -> int | None:
    newest = next((row for row in reversed(rows) if not row.absent), None)
    return newest.status if newest and newest.status and newest.status >= FIRST_ERROR else None


def _looks(squares: Iterable[Iterable[Square]]) -> tuple[tuple[tuple[str, bool], ...], ...]:
    return tuple(tuple((each.kind, each.broken) for each in row) for row in squares)


def build_label(build: RouteBuild) -> str:
    """b11549, or the wheel's version; a native build is told from a wheel of the same number."""
    subject = build.subject
    name = f"b{subject.build}" if subject.build else (subject.version or subject.name)
    return f"{name}*" if subject.kind == "native" else name


def sleeping_builds(matrix: RouteMatrix) -> list[RouteBuild]:
    return [build for build in matrix.builds if build.sleeps]


def sleepless_builds(matrix: RouteMatrix) -> list[RouteBuild]:
    return [build for build in matrix.builds if not build.sleeps]
