"""The route matrix as a document, and what its cells mean."""

import json

import pytest

from analyzers.contracts.routes import (
    ABSENT,
    DANGEROUS,
    KEEPS_AWAKE,
    RESETS,
    ROUTES_SCHEMA,
    SAFE,
    UNKNOWN,
    WAKES,
    RouteBuild,
    RouteCell,
    RouteMatrix,
    RouteRow,
    cell_word,
    matrix_json,
    meaning,
)
from analyzers.contracts.trials import Subject


def cell(state, outcome="answered", **more):
    return RouteCell(state=state, outcome=outcome, **more)


def row(*cells, route="GET /props", **more):
    return RouteRow(route=route, cells=list(cells), **more)


def matrix(*rows):
    build = RouteBuild(subject=Subject(kind="hosted", name="b1", build=1), rows=list(rows))
    return RouteMatrix(tool="1", date="2026-12-02", builds=[build])


@pytest.mark.parametrize(
    ("wakes", "resets", "expected"),
    [
        (False, False, SAFE),
        (False, True, RESETS),
        (True, False, WAKES),
        (True, True, KEEPS_AWAKE),
        (None, True, UNKNOWN),
        (True, None, UNKNOWN),
    ],
)
def test_what_polling_means_follows_from_waking_and_resetting(wakes, resets, expected):
    assert meaning(row(cell("awake", resets=resets), cell("asleep", wakes=wakes))) == expected


def test_one_crash_in_any_state_makes_a_route_dangerous():
    calm = [cell("awake", resets=False), cell("asleep", wakes=False)]

    assert meaning(row(*calm, cell("waking", "crashed"))) == DANGEROUS
    assert meaning(row(*calm, cell("waking", "crashed", reached=False))) == SAFE


def test_absent_and_unasked_routes():
    assert meaning(row(absent=True)) == ABSENT
    assert meaning(row()) == UNKNOWN
    assert meaning(None) == UNKNOWN


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (cell("asleep", wakes=True), "wakes"),
        (cell("asleep", wakes=False), "silent"),
        (cell("asleep"), "?"),
        (cell("awake", resets=True), "resets"),
        (cell("awake", resets=False), "no reset"),
        (cell("waking"), "answered"),
        (cell("two-wakers"), "answered"),
        (cell("asleep", "crashed", defect="D1"), "crash D1"),
        (cell("asleep", "stranded"), "stranded"),
        (cell("asleep", "crashed", reached=False), "not reached"),
    ],
)
def test_a_cell_in_one_word(made, word):
    assert cell_word(made) == word


def test_the_document_comes_back_as_it_was():
    # GIVEN a matrix with every kind of field set
    made = matrix(
        row(
            cell("awake", status=200, resets=True, ms=1.5, right="yes", promise="kept"),
            cell("asleep", "crashed", signal=11, defect="D1", class_="SEGV-UAF-SLEEP", note="why"),
            promised="silent",
            status=200,
        ),
        row(route="GET /gone", absent=True),
    )

    # WHEN it is written and read
    text = matrix_json(made)
    read = RouteMatrix.model_validate_json(text)

    # THEN nothing is lost, one row stands on one line, and the schema is named
    assert read.model_dump() == made.model_dump()
    assert sum('"route":' in line for line in text.splitlines()) == 2
    assert json.loads(text)["schema"] == ROUTES_SCHEMA


def test_fields_of_a_newer_writer_survive():
    text = '{"schema": "llama-blackbox/routes/1.7", "tool": "9", "date": "2027-01-01", "weather": "fair"}'

    read = RouteMatrix.model_validate_json(text)

    assert json.loads(read.model_dump_json(by_alias=True))["weather"] == "fair"


def test_routes_no_build_has_are_left_out():
    made = matrix(row(route="GET /a"), row(route="GET /b", absent=True))

    assert made.routes() == ["GET /a"]


def test_rows_and_cells_are_found_by_name():
    made = matrix(row(cell("awake"), route="GET /a"))

    assert made.builds[0].row("GET /a").cell("awake").outcome == "answered"
    assert made.builds[0].row("GET /a").cell("asleep") is None
    assert made.builds[0].row("GET /b") is None
    assert [(each.route, one.state) for _, each, one in made.cells()] == [("GET /a", "awake")]


@pytest.mark.parametrize("state", ["awake", "asleep", "unloading", "waking", "two-wakers"])
def test_a_call_that_was_met_and_never_answered_has_no_known_meaning(state):
    """A sanitized server ended with status 1 at the call: no signal, and it had woken for it before."""
    cells = {"awake": cell("awake", resets=True), "asleep": cell("asleep", wakes=True)}
    cells[state] = cell(state, "inconclusive", wakes=True, resets=True)

    assert meaning(row(*cells.values())) == UNKNOWN
    assert cell_word(cells[state]) == "no answer"
    # one that was not met says nothing, and takes nothing
    cells["waking"] = cell("waking", "inconclusive", reached=False)
    if state == "waking":
        assert meaning(row(*cells.values())) == KEEPS_AWAKE
