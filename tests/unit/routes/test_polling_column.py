"""What polling a route means has a column only where it is known of one route at least."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from analyzers.contracts.routes import RouteMatrix
from analyzers.render.matrix_table import polling_is_known, print_matrix

DATA = Path(__file__).parents[3] / "docs/data/routes-2026-12-02.json"


def shown(matrix: RouteMatrix) -> str:
    file = io.StringIO()
    print_matrix(matrix, Console(file=file, width=120))
    return file.getvalue()


def of_one_build(*, once: bool) -> RouteMatrix:
    """The last build of the published matrix; ``once``: asked in one state only, as a running server is."""
    data = json.loads(DATA.read_text())
    build = data["builds"][-1]
    if once:
        for row in build["rows"]:
            row["cells"] = [{"state": "awake", "outcome": "answered", "status": 200, "right": "yes"}]
    return RouteMatrix.model_validate({**data, "builds": [build]})


def test_a_measured_build_has_the_column() -> None:
    matrix = of_one_build(once=False)
    assert polling_is_known(matrix.builds[-1])
    assert "polling it" in shown(matrix)


def test_a_server_that_was_asked_once_has_none() -> None:
    matrix = of_one_build(once=True)
    assert not polling_is_known(matrix.builds[-1])
    text = shown(matrix)
    assert "polling it" not in text
    assert "unknown" not in text
