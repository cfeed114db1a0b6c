"""docs/agent.md names every setting with its default, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from analyzers.contracts.incident import INCIDENT_KINDS
from analyzers.contracts.registry import STATES
from collector.agent.config.model import Config, TargetTable

DOCUMENT = (Path(__file__).parents[4] / "docs" / "agent.md").read_text()
ROWS = dict(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|([^|]*)\|", DOCUMENT, flags=re.MULTILINE))
TABLES = ("agent", "probes", "stranded", "hung", "sources", "outbox", "hub")


def settings() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in TABLES:
        table = Config.model_fields[name]
        model = type(getattr(Config(), name)) if name != "hub" else table.annotation.__args__[0]  # type: ignore[union-attr]
        for each, field in model.model_fields.items():
            found[f"{name}.{each}"] = None if field.is_required() else field.default
    return found


def test_every_setting_is_documented_and_nothing_else():
    assert set(ROWS) == set(settings())


@pytest.mark.parametrize("name", sorted(settings()))
def test_its_default_is_the_one_in_force(name):
    default = settings()[name]
    shown = ROWS[name].strip()
    if default is None:
        assert shown == ""
    else:
        told = str(default) if isinstance(default, Path) else default
        assert json.loads(shown) == (list(told) if isinstance(told, tuple) else told)


@pytest.mark.parametrize("name", sorted(TargetTable.model_fields))
def test_what_may_be_said_of_a_server_is_documented(name):
    assert f"`{name}`" in DOCUMENT


@pytest.mark.parametrize("state", sorted(STATES))
def test_every_state_is_explained(state):
    assert re.search(rf"^\|[^|]*`{state}`", DOCUMENT, flags=re.MULTILINE)


@pytest.mark.parametrize("kind", sorted(set(INCIDENT_KINDS) - {"error"}))
def test_every_kind_of_incident_is_explained(kind):
    assert re.search(rf"^\|[^|]*`{kind}`", DOCUMENT, flags=re.MULTILINE)
