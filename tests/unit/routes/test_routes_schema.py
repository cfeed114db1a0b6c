"""The published schema of the route matrix, and the committed measurements that keep to it."""

import json
from pathlib import Path

import jsonschema
import pytest

from analyzers.contracts.routes import ROUTES_SCHEMA, RouteMatrix, json_schema, matrix_json
from analyzers.render.matrix import matrix_svg

DOCS = Path(__file__).parents[3] / "docs"
MEASURED = sorted((DOCS / "data").glob("routes-*.json"))


def test_the_published_schema_is_the_models_own():
    published = json.loads((DOCS / "routes.schema.json").read_text("utf-8"))

    assert published == json_schema(), "run: make schema"


def test_there_is_a_committed_measurement():
    assert MEASURED


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.name)
def test_a_committed_measurement_keeps_to_the_schema(path):
    data = json.loads(path.read_text("utf-8"))

    jsonschema.validate(data, json_schema())
    assert data["schema"] == ROUTES_SCHEMA
    assert path.stem == f"routes-{data['date']}"


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.name)
def test_a_committed_measurement_is_written_as_we_write_it(path):
    text = path.read_text("utf-8")

    assert matrix_json(RouteMatrix.model_validate_json(text)) == text


def test_the_committed_picture_is_that_of_the_newest_measurement():
    newest = RouteMatrix.model_validate_json(MEASURED[-1].read_text("utf-8"))

    assert (DOCS / "images" / "routes.svg").read_text("utf-8") == matrix_svg(newest)
