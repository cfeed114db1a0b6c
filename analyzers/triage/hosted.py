"""Core records of Python: any program of that name has one, and few of them host a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import CoreFact, ExitFact, StackFact, fact_of
from analyzers.contracts.report import Gap
from analyzers.triage.faults import HOSTS, SERVER, server_fault
from analyzers.triage.material import Material
from analyzers.triage.readers.deaths import OneOfSeveral


def without_strangers(materials: Sequence[Material]) -> tuple[list[Material], list[Gap]]:
    """The materials without core records of Python that nothing ties to llama.cpp, and a gap about them.

    A tie is the record's unit, a log or a stack of that PID, a kernel's line about a fault in the server's
    code, or a server's log that names no process and so may be that one's.
    """
    records = [item for one in materials for item in _every(one) if _of_python(item)]
    if not records or any(one.core is not None or _may_be_any(one) for one in materials):
        return list(materials), []
    known = {pid for one in materials for pid in _pids(one)}
    left = {item.id: item for item in records if item.incarnation.pid not in known}
    if not left:
        return list(materials), []
    kept = [_without(one, frozenset(left)) for one in materials]
    return [one for one in kept if one.evidence or not isinstance(one, OneOfSeveral) or not one.anchor], [
        _gap(list(left.values()))
    ]


def _every(material: Material) -> Sequence[Evidence]:
    whole = material.whole if isinstance(material, OneOfSeveral) else None
    return (whole or material).evidence


def _of_python(item: Evidence) -> bool:
    fact = fact_of(item, ExitFact)
    if fact is None or fact.name is None or SERVER.search(f"{fact.name} {fact.unit or ''}"):
        return False
    return HOSTS.search(fact.name) is not None and fact.result == "core-dump"


def _may_be_any(material: Material) -> bool:
    nameless = any(life.pid is None and life.carrier is None for life in material.lives)
    return nameless or any(server_fault(item) is not None for item in material.evidence)


def _pids(material: Material) -> Iterator[int | None]:
    yield material.process.pid if not isinstance(material, OneOfSeveral) else None
    for life in material.lives:
        yield from (life.pid, life.carrier)
    for item in material.evidence:
        if item.kind in (CoreFact.KIND, StackFact.KIND):
            yield item.incarnation.pid


def _without(material: Material, ids: frozenset[str]) -> Material:
    evidence = tuple(item for item in material.evidence if item.id not in ids)
    if isinstance(material, OneOfSeveral) and material.whole is not None:
        return replace(material, evidence=evidence, whole=_without(material.whole, ids))
    return replace(material, evidence=evidence)


def _gap(left: Sequence[Evidence]) -> Gap:
    pids = ", ".join(str(item.incarnation.pid) for item in left)[:200]
    return Gap(
        what=f"{len(left)} core records of Python (PID {pids})",
        why="nothing here shows that these programs host a llama-server, so their deaths were not counted",
        command="coredumpctl info PID > record.txt: its stack names the library",
    )
