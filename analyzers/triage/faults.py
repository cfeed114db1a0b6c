"""Which of a kernel log's faults is the server's, when no core names its threads.

A kernel log holds the faults of every program on the host, and often several deaths of the same server. A
server's own log carries no thread id, so a fault is joined to it only when there is exactly one candidate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import KernelFact, fact_of
from analyzers.contracts.report import Gap
from analyzers.triage.material import Material

FATAL_SHAPES = ("segfault", "gpf", "invalid-opcode", "divide-error")
# Objects and programs that llama-server's threads fault in; a thread may carry any name, so libc with a
# name of its own counts only when nothing better is there.
OURS = re.compile(r"llama|ggml|mtmd|^python|^uvicorn", re.IGNORECASE)


def one_fault(materials: Sequence[Material]) -> tuple[list[Material], list[Gap]]:
    """The materials without the kernel faults that cannot be this server's, and the gap that says so."""
    faults = [item for material in materials for item in material.evidence if _fatal(item) is not None]
    known = {item.incarnation.pid for m in materials for item in m.evidence if _fatal(item) is None}
    kept = _choose(faults, {pid for pid in known if pid is not None})
    if len(kept) == len(faults):
        return list(materials), []
    dropped = {item.id for item in faults} - {item.id for item in kept}
    gap = Gap(
        what=f"{len(dropped)} other faults in the kernel log",
        why="they are other programs', or several fit and none names this server's process"
        if not kept
        else "they are another program's or another process's",
        command="give the core, or journal entries: both name the process",
    )
    return [_without(material, dropped) for material in materials], [gap]


def _choose(faults: Sequence[Evidence], pids: set[int]) -> list[Evidence]:
    named = [item for item in faults if (item.incarnation.pid in pids or _tid(item) in pids)]
    if named:
        return named[-1:]
    ours = [item for item in faults if _is_ours(item)]
    if len(ours) == 1:
        return ours
    return list(faults) if len(faults) == 1 and not ours else []


def _is_ours(item: Evidence) -> bool:
    fact = _fatal(item)
    return fact is not None and any(OURS.search(word) for word in (fact.object or "", fact.name or ""))


def _tid(item: Evidence) -> int | None:
    fact = _fatal(item)
    return fact.tid if fact is not None else None


def _fatal(item: Evidence) -> KernelFact | None:
    fact = fact_of(item, KernelFact)
    return fact if fact is not None and fact.shape in FATAL_SHAPES else None


def _without(material: Material, dropped: set[str]) -> Material:
    return replace(material, evidence=tuple(item for item in material.evidence if item.id not in dropped))
