"""The route matrix as a table for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyzers.contracts.routes import (
    ABSENT,
    BROKEN,
    DANGEROUS,
    KEEPS_AWAKE,
    MEANINGS,
    RESETS,
    SAFE,
    UNKNOWN,
    WAKES,
    RouteBuild,
    RouteMatrix,
    RouteRow,
    cell_word,
    is_bad,
    meaning,
)
from analyzers.render.look import Look
from analyzers.render.matrix_cells import build_label, sleeping_builds, sleepless_builds

STYLES = {
    SAFE: "ok",
    RESETS: "open",
    WAKES: "asleep",
    KEEPS_AWAKE: "open",
    DANGEROUS: "fault",
    UNKNOWN: "quiet",
}


def print_matrix(matrix: RouteMatrix, console: Console) -> None:
    """One build: its states as columns. Several: what polling each route means, build by build."""
    look = Look.of(console)
    builds = sleeping_builds(matrix)
    for build in sleepless_builds(matrix):
        console.print(look.text(f"{build.subject.name}: {build.note or 'no sleep mode'}"))
    if len(builds) == 1:
        console.print(_states(matrix, builds[0], look))
    elif builds:
        console.print(_builds(matrix, builds, look))
    for word in _used(matrix, builds):
        console.print(look.text(f"{word}: {MEANINGS[word]}", "quiet"), soft_wrap=True)


def _states(matrix: RouteMatrix, build: RouteBuild, look: Look) -> Table:
    table = Table(title=look.words(build.subject.name), expand=False)
    for head in ("route", "HTTP", *matrix.states, "polling it"):
        table.add_column(head, overflow="fold")
    for row in build.rows:
        if row.absent:
            continue
        table.add_row(*(look.text(row.route), look.text(row.status or "-"), *_cells(matrix, row, look)))
    return table


def _cells(matrix: RouteMatrix, row: RouteRow, look: Look) -> list[Text]:
    made = []
    for state in matrix.states:
        cell = row.cell(state)
        words = cell_word(cell) if cell else "-"
        if cell and cell.status not in (None, row.status) and not is_bad(cell):
            words += f" ({cell.status})"
        broken = cell is not None and cell.promise == BROKEN
        style = "fault" if cell and (is_bad(cell) or broken) else ""
        made.append(look.text(words + (" !promise" if broken else ""), style))
    return [*made, _meaning(row, look)]


def _builds(matrix: RouteMatrix, builds: list[RouteBuild], look: Look) -> Table:
    table = Table(title="polling it", expand=False)
    table.add_column("route", overflow="fold")
    for build in builds:
        table.add_column(look.words(build_label(build)), overflow="fold")
    for route in matrix.routes():
        table.add_row(look.text(route), *(_meaning(build.row(route), look) for build in builds))
    return table


def _meaning(row: RouteRow | None, look: Look) -> Text:
    word = meaning(row)
    broken = row is not None and any(cell.promise == BROKEN for cell in row.cells)
    shown = "-" if word == ABSENT else word
    return look.text(shown + ("!" if broken else ""), STYLES.get(word, "quiet"))


def _used(matrix: RouteMatrix, builds: list[RouteBuild]) -> list[str]:
    words = {meaning(build.row(route)) for build in builds for route in matrix.routes()}
    return [word for word in MEANINGS if word in words and word != ABSENT]
