"""The published schema is the model's, and what is rendered keeps to it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import jsonschema
import pytest

from analyzers.contracts.report import Report, json_schema

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "docs" / "report.schema.json"
REPORTS = ROOT / "tests" / "fixtures" / "reports"


def test_published_schema_is_the_models() -> None:
    found = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert found == json_schema(), "stale: run tests/fixtures/reports/schema.py"


def test_samples_validate(any_sample: Report) -> None:
    jsonschema.validate(json.loads(any_sample.to_json()), json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_schema_refuses_what_is_no_report(any_sample: Report) -> None:
    data = json.loads(any_sample.to_json())
    del data["verdict"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json_schema())


def test_samples_are_what_their_script_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(REPORTS), *sys.path])
    samples = importlib.import_module("samples").SAMPLES
    assert {path.stem for path in REPORTS.glob("*.json")} == set(samples)
    for name, build in samples.items():
        stored = (REPORTS / f"{name}.json").read_text(encoding="utf-8")
        assert stored == build().to_json() + "\n", f"stale: run {REPORTS.name}/make.py ({name})"
