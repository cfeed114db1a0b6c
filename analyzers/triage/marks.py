"""What build a core's server is: its build-id, and the names in its binary when that is at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from analyzers.catalogue.loader import known_defects
from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import MarkFact, to_evidence
from analyzers.core.buildid import build_id_of_file, find_executable
from analyzers.core.marks import find_names
from analyzers.core.model import Core
from analyzers.errors import UserError

BUILD_ID, NAMES = "known-build-id", "symbol-names"
SEPARATOR = " "  # between the ids of signs in one fact


def mark_evidence(core: Core, exe: Path | None, name: str, next_id: Callable[[], str]) -> list[Evidence]:
    """The wheel by its build-id, else the names that date the binary, if the very file is on this machine.

    ``exe`` is the user's word for it. A file counts only when its build-id is the core's own.
    """
    path = find_executable(core).server
    build_id = core.build_ids.get(path) if path else None
    if path is None or build_id is None:
        return []
    made = _known(build_id) or _named(build_id, (exe, Path(path)))
    if made is None:
        return []
    fact, text = made
    evidence = to_evidence(
        fact,
        id=next_id(),
        source=f"{name}: build-id" if fact.mark == BUILD_ID else f"{name}: symbol names of its program",
        text=text,
        trust=Trust.KERNEL,
        incarnation=Incarnation(pid=core.pid),
    )
    return [evidence]


def _known(build_id: str) -> tuple[MarkFact, str] | None:
    known = known_defects().known_build(build_id)
    if known is None:
        return None
    fact = MarkFact(mark=BUILD_ID, build=f"b{known.build}", build_id=build_id)
    return (
        fact,
        f"the server's code is {known.distribution} {known.version} (b{known.build}), by its build-id",
    )


def _named(build_id: str, files: tuple[Path | None, ...]) -> tuple[MarkFact, str] | None:
    """What the names say. Never a build number: they give a range, and which defect's handler is there."""
    file = next((file for file in files if file is not None and _is(file, build_id)), None)
    if file is None:
        return None
    known = known_defects()
    found = find_names(file, known.every_sign())
    if not found:
        return None
    told = [pair for pair in map(known.mark, found) if pair is not None]
    defects = {(defect.id, mark.affected) for defect, mark in told}
    defect, affected = defects.pop() if len(defects) == 1 else (None, None)
    fact = MarkFact(mark=SEPARATOR.join((NAMES, *found)), defect=defect, affected=affected, build_id=build_id)
    return fact, f"the server's code is {known.recognise(None, found)}"


def _is(file: Path, build_id: str) -> bool:
    try:
        return build_id_of_file(file) == build_id
    except UserError:  # gone, or not for this user to read
        return False


def names_in(fact: MarkFact) -> tuple[str, ...]:
    """The ids of the signs that ``fact`` tells of."""
    kind, *found = fact.mark.split(SEPARATOR)
    return tuple(found) if kind == NAMES else ()
