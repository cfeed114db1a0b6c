"""The route matrix as a picture: one line for a route, one column for a build, one square for a state."""

from __future__ import annotations

from collections.abc import Iterator

from analyzers.contracts.routes import RouteBuild, RouteMatrix
from analyzers.render.matrix_cells import (
    KINDS,
    SECTIONS,
    STATE_LETTERS,
    Line,
    Square,
    build_label,
    lines_of,
    sleeping_builds,
    sleepless_builds,
)
from analyzers.render.matrix_style import (
    COLUMN_GAP,
    GAP,
    HEAD,
    LABEL_CHARACTERS,
    LEFT,
    MARGIN,
    NARROWEST,
    NOTE_LINE,
    ROW,
    SECTION,
    SIZE,
    STYLE,
)
from analyzers.render.safe import clean, markup

__all__ = ["describe", "matrix_svg", "print_matrix"]


def print_matrix(matrix: RouteMatrix, console: object) -> None:
    """The same as a table for the terminal; see ``matrix_table.print_matrix``."""
    from rich.console import Console

    from analyzers.render.matrix_table import print_matrix as show

    if isinstance(console, Console):
        show(matrix, console)


def matrix_svg(matrix: RouteMatrix) -> str:
    """A self-contained SVG, readable on light and dark ground; empty when no build has a sleep mode."""
    builds = sleeping_builds(matrix)
    lines = lines_of(matrix, builds)
    if not builds or not lines:
        return ""
    column = len(matrix.states) * (SIZE + GAP) + COLUMN_GAP
    legend = _legend()
    width = max(LEFT + len(builds) * column + MARGIN, NARROWEST)
    body, bottom = _body(matrix, lines, column)
    foot, height = _foot(matrix, legend, bottom)
    parts = [*_head(matrix, builds, column), *body, *foot]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rm" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-labelledby="rm-title rm-desc">'
        f'<title id="rm-title">What each call does to a server</title>'
        f'<desc id="rm-desc">{markup(describe(matrix))}</desc>'
        f'<style>{STYLE}</style><rect class="rm-ground" width="100%" height="100%"/>{"".join(parts)}</svg>'
    )


def describe(matrix: RouteMatrix) -> str:
    """The picture in words."""
    builds = sleeping_builds(matrix)
    lines = lines_of(matrix, builds)
    words = [f"{len(matrix.routes())} routes on {len(builds)} builds in {len(matrix.states)} states"]
    for section, title in SECTIONS.items():
        routes = [route for line in lines if line.section == section for route in line.routes]
        if routes:
            words.append(f"{title} on {build_label(builds[-1])}: {', '.join(routes)}")
    return ". ".join(words) + "."


def _head(matrix: RouteMatrix, builds: list[RouteBuild], column: float) -> Iterator[str]:
    for index, build in enumerate(builds):
        x = LEFT + index * column
        middle = x + (column - COLUMN_GAP) / 2
        yield _text(build_label(build), middle, MARGIN + 12, "rm-build", "middle")
        yield _text(build.released or "", middle, MARGIN + 25, "rm-quiet", "middle")
        for place, state in enumerate(matrix.states):
            letter = STATE_LETTERS.get(state, state[:1])
            yield _text(
                letter, x + place * (SIZE + GAP) + SIZE / 2, MARGIN + HEAD - 6, "rm-quiet", "middle", state
            )


def _body(matrix: RouteMatrix, lines: list[Line], column: float) -> tuple[list[str], float]:
    parts: list[str] = []
    y = float(MARGIN + HEAD)
    section = ""
    for line in lines:
        if line.section != section:
            section = line.section
            parts.append(_text(SECTIONS[section], MARGIN, y + SECTION - 6, "rm-section"))
            y += SECTION
        parts.append(_label(line, y))
        for index, squares in enumerate(line.squares):
            for place, each in enumerate(squares):
                x = LEFT + index * column + place * (SIZE + GAP)
                parts.append(_square(each, x, y, f"{line.routes[0]} {matrix.states[place]}: {each.words}"))
        y += ROW
    return parts, y


def _label(line: Line, y: float) -> str:
    text = clean(line.label)
    shown = text if len(text) <= LABEL_CHARACTERS else f"{text[: LABEL_CHARACTERS - 1]}…"
    return _text(shown, MARGIN + 6, y + SIZE - 2, "rm-route", title=", ".join(line.routes))


def _square(each: Square, x: float, y: float, title: str) -> str:
    letter = KINDS[each.kind][0]
    mark = f'<text x="{x + SIZE / 2:.1f}" y="{y + SIZE - 3:.1f}">{letter}</text>' if letter else ""
    broken = (
        f'<rect class="rm-broken" x="{x - 1:.1f}" y="{y - 1:.1f}" width="{SIZE + 2}" height="{SIZE + 2}"/>'
        if each.broken
        else ""
    )
    return (
        f'<g class="rm-cell rm-{each.kind}"><title>{markup(title)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{SIZE}" height="{SIZE}" rx="2"/>{mark}{broken}</g>'
    )


def _legend() -> list[tuple[str, bool, str]]:
    rows = [(kind, False, words) for kind, (_, words) in KINDS.items()]
    return [*rows, ("quiet", True, "breaks what the documentation promises")]


def _foot(matrix: RouteMatrix, legend: list[tuple[str, bool, str]], top: float) -> tuple[list[str], float]:
    parts: list[str] = []
    y = top + NOTE_LINE
    half = (len(legend) + 1) // 2
    for index, (kind, broken, words) in enumerate(legend):
        x = MARGIN + 6 if index < half else LEFT
        row = y + (index % half) * NOTE_LINE
        parts.append(_square(Square(kind, broken, words), x, row, words))
        parts.append(_text(words, x + SIZE + 8, row + SIZE - 2, "rm-note"))
    y += half * NOTE_LINE + 8
    for words in _notes(matrix):
        y += NOTE_LINE
        parts.append(_text(words, MARGIN + 6, y, "rm-note"))
    return parts, y + MARGIN


def _notes(matrix: RouteMatrix) -> Iterator[str]:
    letters = ", ".join(f"{STATE_LETTERS.get(state, state[:1])} {state}" for state in matrix.states)
    yield f"States: {letters}."
    yield "Sections: the newest build. +n: aliases that behave alike. (501): refused even when awake."
    if any(build.subject.kind == "native" for build in matrix.builds):
        yield "* a native llama-server; the others are wheels."
    without = [build_label(build) for build in sleepless_builds(matrix)]
    if without:
        yield f"No sleep mode: {', '.join(without)}."
    yield f"Measured on {matrix.date}."


def _text(words: str, x: float, y: float, style: str, anchor: str = "start", title: str | None = None) -> str:
    tip = f"<title>{markup(title)}</title>" if title else ""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{markup(words)}{tip}</text>'
