"""Rows of cells in columns that fit a window: some stretch, and what does not fit is counted or abridged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

LEAST = 7  # columns that a stretching cell gets, however narrow the window
MOST = 32  # and at most: one long name must not starve the others
WIDEST = 24  # of any other cell
GAP = 2
UNKNOWN = "?"

Parts = tuple[str, ...]  # one cell, in characters that the console has


@dataclass(frozen=True)
class Column:
    head: str
    stretches: bool = False
    right: bool = False


@dataclass(frozen=True)
class Grid:
    """``widths``: one per column in console columns, 0 for a column that is left out as nothing is known."""

    columns: tuple[Column, ...]
    widths: tuple[int, ...]
    dots: str

    @classmethod
    def fitting(
        cls, columns: Sequence[Column], rows: Sequence[Sequence[Parts]], room: int, dots: str
    ) -> Grid:
        """A grid for ``rows`` in ``room`` console columns; ``dots`` stand for what a cell lost.

        The stretching cells share what the others leave: first for their first part, then for the rest.
        """
        needs = [_need(column, [row[at] for row in rows]) for at, column in enumerate(columns)]
        stretching = [at for at, need in enumerate(needs) if need.whole and columns[at].stretches]
        widths = [min(need.whole, WIDEST) for need in needs]
        taken = [width for at, width in enumerate(widths) if width and at not in stretching]
        room -= sum(taken) + GAP * (len(taken) + len(stretching) - 1)
        first = shared(room, [min(needs[at].first, MOST) for at in stretching])
        wanted = [min(needs[at].whole, MOST) - given for at, given in zip(stretching, first, strict=True)]
        more = shared(room - sum(first), wanted)
        for at, given, rest in zip(stretching, first, more, strict=True):
            widths[at] = max(LEAST, given + rest)
        return cls(tuple(columns), tuple(widths), dots)

    def head(self) -> str:
        return self.line([(column.head,) for column in self.columns])

    def line(self, cells: Sequence[Parts]) -> str:
        shown = []
        for column, cell, width in zip(self.columns, cells, self.widths, strict=True):
            if width:
                text = fitted(cell, width, self.dots)
                blank = " " * (width - cell_len(text))
                shown.append(blank + text if column.right else text + blank)
        return (" " * GAP).join(shown).rstrip()


@dataclass(frozen=True)
class _Need:
    whole: int
    first: int  # with the other parts counted


def _need(column: Column, cells: Sequence[Parts]) -> _Need:
    """Console columns that the longest cell wants; none when nothing is known in any row."""
    if all(cell == (UNKNOWN,) for cell in cells):
        return _Need(0, 0)
    head = cell_len(column.head)
    whole = max(cell_len(", ".join(cell)) for cell in cells)
    return _Need(max(head, whole), max(head, max(cell_len(_counted(cell, 1)) for cell in cells)))


def shared(room: int, needs: Sequence[int]) -> list[int]:
    """``room`` dealt out: nobody gets more than needed, and what the modest leave goes to the others."""
    given = [0] * len(needs)
    order = sorted(range(len(needs)), key=needs.__getitem__)
    for left, at in zip(range(len(needs), 0, -1), order, strict=True):
        given[at] = max(0, min(needs[at], room // left))
        room -= given[at]
    return given


def _counted(cell: Parts, kept: int) -> str:
    return ", ".join(cell[:kept]) + (f" +{len(cell) - kept}" if kept < len(cell) else "")


def fitted(cell: Parts, width: int, dots: str) -> str:
    """The parts that fit, and how many more there are; a first one that does not fit loses its middle."""
    for kept in range(len(cell), 0, -1):
        if cell_len(_counted(cell, kept)) <= width:
            return _counted(cell, kept)
    rest = _counted(cell, 1)[len(cell[0]) :]
    return shortened(cell[0], width - len(rest), dots) + rest


def shortened(text: str, width: int, dots: str) -> str:
    """At most ``width`` columns of ``text``: its start and, longer, its end, which tell names apart."""
    if cell_len(text) <= width:
        return text
    room = max(width - len(dots), 0)
    head = _first(text, room // 3)
    return f"{head}{dots}{_first(text[::-1], room - cell_len(head))[::-1]}"


def _first(text: str, width: int) -> str:
    used = 0
    for at, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return text[:at]
    return text
