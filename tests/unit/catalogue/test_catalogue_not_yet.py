"""What no rule can give is said to be so, in the document and on its page."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from analyzers.cli.verbs.explain import explain
from analyzers.contracts.registry import CLASSES, NOT_YET_DIAGNOSED

DOCUMENT = Path(__file__).parents[3] / "docs" / "verdicts.md"


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_document_and_the_page_mark_exactly_the_classes_without_a_rule(name: str) -> None:
    row = next(line for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith(f"| `{name}` |"))
    out = io.StringIO()
    explain(name, Console(file=out, width=100))
    expected = name in NOT_YET_DIAGNOSED
    assert ("not diagnosed yet" in row) is expected
    assert ("No rule of this version" in out.getvalue()) is expected
