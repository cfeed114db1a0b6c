from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

from analyzers.bundle import limits
from analyzers.bundle.write import ARCHIVE_SUFFIX
from analyzers.contracts import bundle as contract
from analyzers.contracts.bundle import Manifest, json_schema
from analyzers.contracts.registry import BUNDLE_SCHEMA
from analyzers.privacy.redact import MARKER

DOCS = Path(__file__).parents[3] / "docs" / "bundle.md"


def test_unknown_fields_and_ids_survive_a_round_trip() -> None:
    # GIVEN a manifest of a newer minor version
    text = json.dumps(
        {
            "schema": "llama-blackbox/bundle/1.4",
            "mood": "calm",
            "redaction": "half",
            "files": [{"path": "a", "kind": "hologram", "size": 1, "sha256": "00", "colour": "red"}],
            "host": {"arch": "riscv64", "moon": "full"},
        }
    )
    # WHEN it is read and written
    again = json.loads(Manifest.from_json(text).to_json())
    # THEN nothing of it was lost or refused
    assert again["schema"] == "llama-blackbox/bundle/1.4"
    assert again["mood"] == "calm"
    assert again["redaction"] == "half"
    assert again["files"][0]["colour"] == "red"
    assert again["files"][0]["kind"] == "hologram"
    assert again["host"]["moon"] == "full"


@pytest.mark.parametrize(
    ("schema", "major"),
    [
        (BUNDLE_SCHEMA, 1),
        ("llama-blackbox/bundle/1.9", 1),
        ("llama-blackbox/bundle/2", 2),
        ("llama-blackbox/report/1", None),
        ("llama-blackbox/bundle/", None),
        ("", None),
    ],
)
def test_the_major_version_is_read_from_the_schema(schema: str, major: int | None) -> None:
    assert Manifest.model_validate({"schema": schema}).major == major


def test_an_empty_manifest_is_valid_and_matches_the_published_schema() -> None:
    manifest = Manifest.from_json("{}")
    assert manifest.schema_ == BUNDLE_SCHEMA
    jsonschema.validate(json.loads(manifest.to_json()), json_schema())


def test_a_manifest_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Manifest().memory = True  # type: ignore[misc]


def test_the_documentation_names_what_the_code_uses() -> None:
    # GIVEN the page people read
    text = DOCS.read_text(encoding="utf-8")
    # THEN its ids, file names, marker and limits are the code's own
    names = (BUNDLE_SCHEMA, contract.MANIFEST_NAME, contract.EVIDENCE_NAME, ARCHIVE_SUFFIX, MARKER)
    assert [name for name in names if f"`{name}`" not in text] == []
    assert f"{limits.MAX_FILES:,} files" in text
    assert f"{limits.MAX_TOTAL // limits.GIB} GiB" in text
    assert f"{limits.MAX_RATIO:,} times" in text
    assert f"{limits.MAX_WINDOW // limits.MIB} MiB" in text


def test_the_documentation_lists_every_field_of_the_manifest() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    fields = {field.alias or name for name, field in Manifest.model_fields.items()}
    assert listed == fields
