"""The published schema of a run is the model's, and what `verify` writes keeps to it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from trial_builder import a_run, finding, judged, made

from analyzers.contracts.trials import CRASHED, OUTCOMES, TrialRun, json_schema
from collector.lab.verify.keep import dumped

SCHEMA = Path(__file__).parents[3] / "docs" / "trials.schema.json"


def full_run() -> TrialRun:
    trials = [made(outcome, "D2", number=at) for at, outcome in enumerate(OUTCOMES)]
    trials.append(made(CRASHED, "D2", signal=11, judgement=judged("D2"), oracle=["freed by"], notes=["x"]))
    return a_run(finding(), finding("D3", "sound", upper_bound=0.05), trials=trials, problem="disk full")


def test_published_schema_is_the_models() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == json_schema(), "stale: run make schema"


def test_a_run_keeps_to_the_schema_and_comes_back_the_same() -> None:
    text = dumped(full_run(), indent=2)
    jsonschema.validate(json.loads(text), json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert TrialRun.model_validate_json(text) == full_run()


@pytest.mark.parametrize("missing", ["subject", "method", "started"])
def test_the_schema_refuses_what_is_no_run(missing: str) -> None:
    data = json.loads(dumped(full_run()))
    del data[missing]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json_schema())


def test_fields_and_words_of_a_newer_writer_survive() -> None:
    data = json.loads(dumped(full_run()))
    data["trials"][0]["outcome"] = "melted"
    data["trials"][0]["temperature"] = 90
    again = json.loads(dumped(TrialRun.model_validate(data)))
    assert again["trials"][0]["outcome"] == "melted"
    assert again["trials"][0]["temperature"] == 90


def test_a_lone_surrogate_from_a_hostile_answer_does_not_lose_the_run() -> None:
    trial = made(CRASHED, "D2").model_copy(update={"notes": ["\ud800"]})
    run = a_run(finding()).model_copy(update={"trials": [trial]})
    assert json.loads(dumped(run))["trials"][0]["notes"] == ["\ud800"]
