"""A bundle into materials: its recorded evidence as it is, its files read like any other input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from analyzers.bundle.read import OpenBundle, open_bundle
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import InputFile, Process
from analyzers.privacy.redact import Redactor
from analyzers.triage.from_core import core_material
from analyzers.triage.from_text import text_material
from analyzers.triage.material import Material
from analyzers.triage.sniff import sniff

NextId = Callable[[], str]


def bundle_materials(
    path: Path, listed: Sequence[InputFile], exe: Path | None, next_id: NextId, stack: ExitStack
) -> list[Material]:
    """Every part of a bundle. Raises UserError when the bundle itself cannot be used."""
    bundle = stack.enter_context(open_bundle(path))
    recorded = _recorded(bundle, next_id)
    known = _process(bundle)
    first = Material(
        evidence=recorded,
        gaps=tuple(bundle.gaps),
        process=known,
        host=bundle.manifest.host,
        inputs=tuple(listed),
    )
    return [first, *(_file(bundle.folder / name, name, exe, next_id) for name in bundle.names)]


def _recorded(bundle: OpenBundle, next_id: NextId) -> tuple[Evidence, ...]:
    return tuple(item.model_copy(update={"id": next_id()}) for item in bundle.evidence)


def _process(bundle: OpenBundle) -> Process:
    return bundle.manifest.process or Process()


def _file(path: Path, name: str, exe: Path | None, next_id: NextId) -> Material:
    kind = sniff(path)
    if kind == "core":
        return core_material(path, name, exe, next_id, Redactor())
    return replace(text_material(path, name, kind, next_id))
