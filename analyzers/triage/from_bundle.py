"""A bundle into materials: its recorded evidence as it is, its files read like any other input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from analyzers.bundle.read import OpenBundle, OpenFile, open_bundle
from analyzers.contracts.bundle import CONTEXT
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import KernelFact
from analyzers.contracts.report import Gap, InputFile, Process
from analyzers.core.packed import opened
from analyzers.errors import UserError
from analyzers.privacy.redact import Redactor
from analyzers.triage.from_core import core_material
from analyzers.triage.material import Material
from analyzers.triage.sniff import ARCHIVE, FOLDER, JOURNAL, look

NextId = Callable[[], str]
NOT_INSIDE = {
    "bundle": "a bundle inside a bundle",
    ARCHIVE: "an archive inside a bundle",
    FOLDER: "a folder, not a file",
    JOURNAL: "a raw journal file inside a bundle",
}
FOR_PEOPLE = (CONTEXT, "environ", "cmdline")  # nothing in them is evidence that a line of a log could be


def bundle_materials(
    path: Path,
    listed: Sequence[InputFile],
    exe: Path | None,
    next_id: NextId,
    stack: ExitStack,
    *,
    check_hashes: bool = True,
    include_private: bool = False,
    symbols: Sequence[Path] = (),
) -> list[Material]:
    """Every part of a bundle. Raises UserError when the bundle itself cannot be used."""
    redactor = None if include_private else Redactor()
    bundle = stack.enter_context(open_bundle(path, check_hashes=check_hashes))
    first = Material(
        evidence=_recorded(bundle, next_id),
        gaps=tuple(bundle.gaps),
        process=bundle.manifest.process or Process(),
        host=bundle.manifest.host,
        inputs=tuple(listed),
    )
    files = [file for file in bundle.files if file.kind not in FOR_PEOPLE]
    rest = [one for file in files for one in _file(file, exe, next_id, stack, redactor, symbols)]
    cores = [material for material in rest if material.anchor]
    # a container's core and its host know the process by different PIDs: the log goes with the core
    pid = first.process.pid if not cores else cores[0].process.pid if len(cores) == 1 else None
    if pid is not None:
        rest = [_of_process(material, pid) for material in rest]
    return [replace(part, bundle=str(path)) for part in (first, *rest)]


def _of_process(material: Material, pid: int) -> Material:
    """A log in a bundle is its process's, though no line says so: it must not join another process's core.

    Not where it tells of several lives, nor for the kernel's lines, which are everybody's. A bundle with a
    core of its own needs none of this, and the PIDs of a container's core and of the host differ.
    """
    if len(material.lives) > 1 or material.anchor:
        return material
    bound = {item.id: _bound(item, pid) for item in material.evidence}
    lives = tuple(replace(life, items=tuple(bound[i.id] for i in life.items)) for life in material.lives)
    return replace(material, evidence=tuple(bound.values()), lives=lives)


def _bound(item: Evidence, pid: int) -> Evidence:
    if item.kind == KernelFact.KIND or item.incarnation.pid is not None:
        return item
    return item.model_copy(update={"incarnation": item.incarnation.model_copy(update={"pid": pid})})


def _recorded(bundle: OpenBundle, next_id: NextId) -> tuple[Evidence, ...]:
    return tuple(item.model_copy(update={"id": next_id()}) for item in bundle.evidence)


def _file(
    file: OpenFile,
    exe: Path | None,
    next_id: NextId,
    stack: ExitStack,
    redactor: Redactor | None,
    symbols: Sequence[Path] = (),
) -> list[Material]:
    """A file that cannot be used is a gap: the rest of the bundle still counts."""
    try:
        found = look(file.path)
        if found.kind == "core":
            core = stack.enter_context(opened(file.path))
            return [core_material(core, file.name, exe, next_id, redactor, symbols=symbols)]
        if found.kind in NOT_INSIDE:
            raise UserError(NOT_INSIDE[found.kind], where=file.name, remedy="give it as an input of its own")
        from analyzers.triage.readers.reading import text_materials

        parts = text_materials(file.path, file.name, found, next_id, stack)
        return [replace(part, inputs=()) for part in parts]
    except UserError as problem:
        return [Material(gaps=(Gap(what=file.name, why=problem.what, command=problem.remedy),))]
