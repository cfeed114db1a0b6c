"""Texts that have a reader of their own, by kind; each is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from analyzers.triage.material import Material

NextId = Callable[[], str]
Reader = Callable[[Path, str, NextId], Material]
# kind -> "module:function", a Reader
SPECIAL = {
    "sockets": "analyzers.triage.readers.sockets:sockets_material",
    "unit-state": "analyzers.triage.readers.units:units_material",
    "container-state": "analyzers.triage.readers.containers:containers_material",
    "core-record": "analyzers.triage.readers.core_records:core_record_material",
}


def special_material(path: Path, name: str, kind: str, next_id: NextId) -> Material:
    """What the text says. Raises KeyError for a kind that is not in SPECIAL, UserError as its reader does."""
    module, _, function = SPECIAL[kind].partition(":")
    reader: Reader = getattr(importlib.import_module(module), function)
    return reader(path, name, next_id)
