"""The tables beside the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analyzers.catalogue.tables import toml

HERE = Path(__file__).parent


def entries(file: str, table: str) -> list[dict[str, Any]]:
    """The rows ``[[table]]`` of a TOML file of this folder."""
    rows: list[dict[str, Any]] = toml.loads((HERE / file).read_text("utf-8"))[table]
    return rows
