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
    TWO_WAKERS,
    UNKNOWN,
    UNLOADING,
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
HEADS = {UNLOADING: "unload", TWO_WAKERS: "two"}
# What is as it should be is said short, so that the rest can be seen.
SHORT = {"answered": "ok", "no reset": "-", "silent": "-"}
POLLING = "polling it"
ROUTE_WIDTH = 18  # characters; longer routes take two lines where the window is narrow
BUILD_WIDTH = 12  # of the longest word and the gap


def print_matrix(matrix: RouteMatrix, console: Console) -> None:
    """One build: its states as columns. Several: what polling each route means, build by build."""
    look = Look.of(console)
    builds = sleeping_builds(matrix)
    for build in sleepless_builds(matrix):
        console.print(look.text(f"{build.subject.name}: {build.note or 'no sleep mode'}"), soft_wrap=True)
    if len(builds) == 1:
        console.print(_states(matrix, builds[0], look))
    else:
        for some in _that_fit(builds, console.width):
            console.print(_builds(matrix, some, look))
    if len(builds) == 1:
        console.print(look.text("-: leaves the server as it is", "quiet"), soft_wrap=True)
    for word in _used(matrix, builds):
        console.print(look.text(f"{word}: {MEANINGS[word]}", "quiet"), soft_wrap=True)


def _that_fit(builds: list[RouteBuild], width: int) -> list[list[RouteBuild]]:
    """``builds`` in groups that stand side by side on this console."""
    count = max(1, (width - ROUTE_WIDTH - 4) // BUILD_WIDTH)
    return [builds[start : start + count] for start in range(0, len(builds), count)]


def _table(title: str, heads: list[str]) -> Table:
    table = Table(title=title, expand=False, box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("route", overflow="fold", min_width=ROUTE_WIDTH)
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _states(matrix: RouteMatrix, build: RouteBuild, look: Look) -> Table:
    heads = [HEADS.get(state, state) for state in matrix.states]
    told = [POLLING] if polling_is_known(build) else []
    table = _table(look.words(build.subject.name), ["HTTP", *heads, *told])
    for row in build.rows:
        if not row.absent:
            cells = _cells(matrix, row, look) + ([_meaning(row, look)] if told else [])
            table.add_row(look.text(row.route), look.text(row.status or ""), *cells)
    return table


def polling_is_known(build: RouteBuild) -> bool:
    """False where every route's column would say "unknown", as of a running server that is asked once."""
    return any(meaning(row) != UNKNOWN for row in build.rows if not row.absent)


def _cells(matrix: RouteMatrix, row: RouteRow, look: Look) -> list[Text]:
    made = []
    for state in matrix.states:
        cell = row.cell(state)
        words = cell_word(cell) if cell else ""
        words = SHORT.get(words, words)
        if cell and cell.status not in (None, row.status) and not is_bad(cell):
            words += f" ({cell.status})"
        broken = cell is not None and cell.promise == BROKEN
        style = "fault" if cell and (is_bad(cell) or broken) else ""
        made.append(look.text(words + (" !promise" if broken else ""), style))
    return made


def _builds(matrix: RouteMatrix, builds: list[RouteBuild], look: Look) -> Table:
    table = _table(POLLING, [look.words(build_label(build)) for build in builds])
    for route in matrix.routes():
        table.add_row(look.text(route), *(_meaning(build.row(route), look) for build in builds))
    return table


def _meaning(row: RouteRow | None, look: Look) -> Text:
    word = meaning(row)
    broken = row is not None and any(cell.promise == BROKEN for cell in row.cells)
    shown = "-" if word == ABSENT else word
    return look.text(shown + ("!" if broken else ""), STYLES.get(word, "quiet"))


def _used(matrix: RouteMatrix, builds: list[RouteBuild]) -> list[str]:
    told = builds if len(builds) > 1 else [build for build in builds if polling_is_known(build)]
    words = {meaning(build.row(route)) for build in told for route in matrix.routes()}
    return [word for word in MEANINGS if word in words and word != ABSENT]
