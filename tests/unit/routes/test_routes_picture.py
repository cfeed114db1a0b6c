"""The picture and the terminal table of a route matrix."""

import io
import re
from xml.etree import ElementTree

import pytest
from rich.console import Console

from analyzers.contracts.routes import RouteBuild, RouteCell, RouteMatrix, RouteRow
from analyzers.contracts.trials import Subject
from analyzers.render.matrix import describe, matrix_svg, print_matrix
from analyzers.render.matrix_cells import lines_of

SVG = "{http://www.w3.org/2000/svg}"


def cells(wakes=False, resets=False, **more):
    return [
        RouteCell(state="awake", outcome="answered", resets=resets, status=200, ms=1.0),
        RouteCell(state="asleep", outcome="answered", wakes=wakes, status=200, **more),
    ]


def row(route, handler="h", made=None, **more):
    return RouteRow(route=route, handler=handler, status=200, cells=made or [], **more)


def build(number, *rows, **more):
    subject = Subject(kind="hosted", name=f"b{number}", build=number)
    return RouteBuild(subject=subject, rows=list(rows), **more)


def matrix(*builds):
    return RouteMatrix(tool="1", date="2026-12-02", states=["awake", "asleep"], builds=list(builds))


def squares(svg, kind):
    return len(re.findall(rf'class="rm-cell rm-{kind}"', svg))


def legend():
    """Squares that the legend has of each kind."""
    return {"quiet": 2, "wakes": 1, "bad": 1, "absent": 1, "missed": 1}


def shown(made, width=140, **more):
    console = Console(file=io.StringIO(), width=width, **more)
    print_matrix(made, console)
    return console.file.getvalue()


def test_the_picture_is_well_formed_and_says_what_it_shows():
    made = matrix(build(11549, row("GET /props", made=cells())))

    root = ElementTree.fromstring(matrix_svg(made))  # noqa: S314 - our own

    assert root.find(f"{SVG}title").text
    assert "GET /props" in root.find(f"{SVG}desc").text
    assert root.get("role") == "img"


def test_every_cell_is_one_square_of_its_kind():
    made = matrix(
        build(
            11549,
            row("GET /props", "a", cells()),
            row("POST /tokenize", "b", cells(wakes=True)),
            row("POST /gone", "c", absent=True),
            row("POST /count", "d", [RouteCell(state="asleep", outcome="crashed", defect="D1")]),
        ),
        build(11000, row("POST /gone", "c", cells())),
    )

    svg = matrix_svg(made)

    assert squares(svg, "wakes") - legend()["wakes"] == 1
    assert squares(svg, "bad") - legend()["bad"] == 1
    assert squares(svg, "absent") - legend()["absent"] == 2


def test_a_broken_promise_is_framed_and_said():
    svg = matrix_svg(matrix(build(1, row("GET /props", made=cells(wakes=True, promise="broken")))))

    assert svg.count('class="rm-broken"') == 2  # the cell's and the legend's
    assert "breaks its promise" in svg


def test_aliases_that_behave_alike_share_a_line_and_others_do_not():
    rows = [
        row("POST /rerank", "post_rerank", cells(wakes=True)),
        row("POST /v1/rerank", "post_rerank", cells(wakes=True)),
        row("POST /reranking", "post_rerank", cells()),
    ]
    made = matrix(build(1, *rows))

    lines = lines_of(made, made.builds)

    assert sorted(line.routes for line in lines) == [
        ("POST /rerank", "POST /v1/rerank"),
        ("POST /reranking",),
    ]
    assert "POST /rerank +1" in {line.label for line in lines}


def test_a_refusal_of_the_awake_server_stands_behind_the_route():
    refused = RouteRow(route="POST /infill", handler="i", status=501, cells=cells(wakes=True))

    (line,) = lines_of(made := matrix(build(1, refused)), made.builds)

    assert line.label == "POST /infill (501)"


def test_both_grounds_have_their_colours_and_nothing_is_loaded():
    svg = matrix_svg(matrix(build(1, row("GET /props", made=cells()))))

    assert "prefers-color-scheme:dark" in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in svg


def test_hostile_names_stay_text():
    # GIVEN a subject and a route with markup and control characters
    evil = RouteRow(route="GET /<script>\x1b[2J", handler="h", cells=cells())
    subject = Subject(kind="hosted", name="<b>\x1b[2J", version="<i>\x07")
    made = matrix(RouteBuild(subject=subject, rows=[evil]))

    # THEN neither picture nor terminal acts on them
    svg = matrix_svg(made)
    ElementTree.fromstring(svg)  # noqa: S314 - our own
    assert "<script" not in svg
    assert "\x1b" not in svg
    assert "\x1b[2J" not in shown(made)
    assert "\x07" not in shown(made)


def test_builds_without_sleep_mode_are_named_and_have_no_column():
    made = matrix(build(1, row("GET /props", made=cells())), build(2, sleeps=False, note="no sleep mode"))

    svg = matrix_svg(made)

    assert "No sleep mode: b2." in svg
    assert describe(made).startswith("1 routes on 1 builds")
    assert "b2: no sleep mode" in shown(made)


def test_nothing_to_show_is_no_picture():
    assert matrix_svg(matrix()) == ""
    assert matrix_svg(matrix(build(1, sleeps=False))) == ""


def test_one_build_is_shown_state_by_state():
    text = shown(matrix(build(11549, row("GET /slots", made=cells(wakes=True, resets=True)))))

    assert "asleep" in text
    assert re.search(r"GET /slots.*200.*resets.*wakes.*keeps-awake", text)
    assert "keeps-awake: " in text


def test_several_builds_are_shown_side_by_side():
    made = matrix(
        build(1, row("GET /metrics", made=cells(True, True))), build(2, row("GET /metrics", made=cells()))
    )

    assert re.search(r"GET /metrics.*keeps-awake.*safe", shown(made))


def test_a_broken_promise_shows_in_the_terminal():
    broken = row("GET /props", made=cells(wakes=True, promise="broken"))

    assert "wakes !promise" in shown(matrix(build(1, broken)))
    assert "wakes!" in shown(matrix(build(1, broken), build(2, broken)))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_any_width_shows_every_route_of_every_build(width):
    builds = [build(number, row("GET /props", made=cells())) for number in range(11000, 11012)]

    text = shown(matrix(*builds), width)

    assert all(f"b{number}" in text for number in range(11000, 11012))
    assert "GET /props" in text
    assert max(len(line) for line in text.splitlines() if "safe" in line and ":" not in line) <= width


def test_on_eighty_columns_one_build_has_a_line_a_route():
    # GIVEN every state of a route of ordinary length
    made = [RouteCell(state=state, outcome="answered", wakes=True) for state in ("asleep", "unloading")]
    made += [RouteCell(state=state, outcome="answered") for state in ("waking", "two-wakers")]
    whole = RouteMatrix(
        tool="1",
        date="2026-12-02",
        builds=[build(11549, row("POST /v1/responses", made=[cells(resets=True)[0], *made]))],
    )

    assert re.search(
        r"^POST /v1/responses +200 +resets +wakes +wakes +ok +ok +keeps-awake", shown(whole, 80), re.MULTILINE
    )
