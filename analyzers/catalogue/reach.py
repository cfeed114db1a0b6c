"""Reads routes.toml: through which routes a defect is reached, and what probes do to a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from analyzers.catalogue.model import ProbeSafety, Through
from analyzers.catalogue.reading import read_probes, read_reach
from analyzers.catalogue.tables import read_toml


@dataclass(frozen=True)
class Routes:
    """routes.toml: through which routes a defect is reached (by defect id), and what probes do."""

    reach: Mapping[str, tuple[Through, ...]]
    probes: tuple[ProbeSafety, ...]


@lru_cache(maxsize=4)
def load_routes(path: Path) -> Routes:
    """Apart from the defects: a triage asks for neither, and need not read them."""
    table = read_toml(path)
    reach: dict[str, tuple[Through, ...]] = {}
    for id, through in table.rows("reach", read_reach):
        reach[id] = (*reach.get(id, ()), through)
    probes = tuple(probe for rows in table.rows("probe", read_probes) for probe in rows)
    table.finish()
    return Routes(reach, probes)
