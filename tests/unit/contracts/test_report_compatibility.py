"""Within a major version fields are only added, unknown fields are kept and unknown ids are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import FACT_TYPES, CoreFact, Frame, StackFact, fact_of, to_evidence
from analyzers.contracts.registry import CAUSES, CLASSES, CONFIDENCES, PHASES, REPORT_SCHEMA
from analyzers.contracts.report import Report, Tool, Verdict, json_schema

MINIMAL = {"tool": {"version": "9", "catalogue": "9"}, "verdict": {"class": "SEGV"}}


def report(**more: Any) -> Report:
    return Report.from_json(json.dumps({**MINIMAL, **more}))


def test_a_newer_writers_fields_survive_a_round_trip_at_every_level() -> None:
    newer = {
        "tool": {"version": "9", "catalogue": "9", "channel": "beta"},
        "verdict": {"class": "SEGV", "novelty": {"score": 3}, "evidence": [_evidence_json(mood="odd")]},
        "threads": [{"tid": 1, "frames": [{"function": "f", "column": 7}], "cpu": 2}],
        "weather": ["rain"],
    }
    again = json.loads(Report.from_json(json.dumps(newer)).to_json())
    assert again["weather"] == ["rain"]
    assert again["tool"]["channel"] == "beta"
    assert again["verdict"]["novelty"] == {"score": 3}
    assert again["verdict"]["evidence"][0]["mood"] == "odd"
    assert again["threads"][0]["cpu"] == 2
    assert again["threads"][0]["frames"][0]["column"] == 7


def _evidence_json(**more: Any) -> dict[str, Any]:
    return {"id": "E1", "kind": "core", "source": "s", "text": "t", "trust": "kernel-set", **more}


def test_unknown_ids_are_kept_and_not_refused() -> None:
    verdict = {
        "class": "QUANTUM",
        "cause": "moon",
        "phase": "dreaming",
        "confidence": "cosmic",
        "defect": "D99",
    }
    kept = json.loads(report(verdict=verdict).to_json())["verdict"]
    assert {key: kept[key] for key in verdict} == verdict


def test_the_published_names_are_class_and_schema() -> None:
    data = json.loads(Report(tool=Tool(version="1", catalogue="1"), verdict=Verdict(class_="BUS")).to_json())
    assert data["schema"] == REPORT_SCHEMA
    assert data["verdict"]["class"] == "BUS"
    assert "class_" not in data["verdict"]
    assert "schema_" not in data


def test_the_json_schema_describes_what_is_written() -> None:
    schema = json_schema()
    assert {"schema", "verdict", "tool", "gaps"} <= set(schema["properties"])
    assert "class" in schema["$defs"]["Verdict"]["properties"]


def test_evidence_is_immutable() -> None:
    evidence = Evidence.model_validate(_evidence_json())
    with pytest.raises(ValueError, match="frozen"):
        evidence.text = "changed"  # type: ignore[misc]


def test_an_unnamed_part_of_an_incarnation_never_contradicts() -> None:
    assert Incarnation(pid=5).same_as(Incarnation(pid=5, boot_id="b"))
    assert not Incarnation(pid=5, start_time=1.0).same_as(Incarnation(pid=5, start_time=2.0))
    assert not Incarnation(pid=5).same_as(Incarnation(pid=6))


def test_a_fact_comes_back_whole_and_unknown_keys_of_a_newer_writer_are_ignored_but_kept() -> None:
    fact = StackFact(tid=3, crashed=True, frames=(Frame("f", repeat=7), Frame(None, offset=16)))
    evidence = to_evidence(fact, id="E1", source="s", text="t", trust=Trust.KERNEL)
    wire = Evidence.model_validate_json(evidence.model_dump_json())
    assert fact_of(wire, StackFact) == fact
    newer = wire.model_copy(update={"data": {**wire.data, "shade": "blue"}})
    assert fact_of(newer, StackFact) == fact
    assert newer.data["shade"] == "blue"


def test_a_fact_of_another_kind_is_none() -> None:
    evidence = to_evidence(CoreFact(signal=11), id="E1", source="s", text="t", trust=Trust.KERNEL)
    assert fact_of(evidence, StackFact) is None


@pytest.mark.parametrize("kind", sorted(FACT_TYPES))
def test_every_fact_has_defaults_so_that_older_writers_can_be_read(kind: str) -> None:
    evidence = Evidence(id="E1", kind=kind, source="s", text="t", trust=Trust.SERVER)
    assert fact_of(evidence, FACT_TYPES[kind]) == FACT_TYPES[kind]()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_extra_value_survives(value: Any) -> None:
    assert json.loads(report(extra_thing=value).to_json())["extra_thing"] == value


def test_the_registry_has_a_meaning_for_every_id() -> None:
    for table in (CLASSES, CAUSES, PHASES, CONFIDENCES):
        assert all(meaning.strip() for meaning in table.values())
