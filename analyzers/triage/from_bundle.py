"""A bundle into materials: its recorded evidence as it is, its files read like any other input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from analyzers.bundle.read import OpenBundle, OpenFile, open_bundle
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap, InputFile, Process
from analyzers.errors import UserError
from analyzers.privacy.redact import Redactor
from analyzers.triage.from_core import core_material
from analyzers.triage.from_text import text_material
from analyzers.triage.material import Material
from analyzers.triage.sniff import sniff

NextId = Callable[[], str]


def bundle_materials(
    path: Path,
    listed: Sequence[InputFile],
    exe: Path | None,
    next_id: NextId,
    stack: ExitStack,
    *,
    check_hashes: bool = True,
) -> list[Material]:
    """Every part of a bundle. Raises UserError when the bundle itself cannot be used."""
    bundle = stack.enter_context(open_bundle(path, check_hashes=check_hashes))
    first = Material(
        evidence=_recorded(bundle, next_id),
        gaps=tuple(bundle.gaps),
        process=bundle.manifest.process or Process(),
        host=bundle.manifest.host,
        inputs=tuple(listed),
    )
    return [first, *(_file(file, exe, next_id) for file in bundle.files)]


def _recorded(bundle: OpenBundle, next_id: NextId) -> tuple[Evidence, ...]:
    return tuple(item.model_copy(update={"id": next_id()}) for item in bundle.evidence)


def _file(file: OpenFile, exe: Path | None, next_id: NextId) -> Material:
    """A file that cannot be used is a gap: the rest of the bundle still counts."""
    try:
        kind = sniff(file.path)
        if kind == "core":
            return core_material(file.path, file.name, exe, next_id, Redactor())
        return text_material(file.path, file.name, kind, next_id)
    except UserError as problem:
        return Material(gaps=(Gap(what=file.name, why=problem.what, command=problem.remedy),))
