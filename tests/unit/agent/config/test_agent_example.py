"""deploy/agent/agent.toml holds every setting with its default, and can be used as it is."""

from __future__ import annotations

import re
from pathlib import Path

from collector.agent.config.load import load_config, parse_config
from collector.agent.config.model import Config, TargetTable

EXAMPLE = Path(__file__).parents[4] / "deploy" / "agent" / "agent.toml"


def opened(text: str) -> str:
    """The example with every setting in force."""
    return re.sub(r"^# (?=\[|[a-z_]+ = )", "", text, flags=re.MULTILINE)


def test_as_it_is_it_changes_nothing():
    assert load_config(EXAMPLE) == Config()


def test_with_everything_in_force_it_can_be_used_and_says_the_defaults():
    config = parse_config(opened(EXAMPLE.read_text()).encode(), "agent.toml")
    plain = Config()
    for name in ("probes", "stranded", "hung", "sources"):
        assert getattr(config, name) == getattr(plain, name)
    assert set(config.target[0].model_fields_set) == set(TargetTable.model_fields)
