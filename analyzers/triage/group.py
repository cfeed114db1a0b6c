"""Which evidence belongs to which incident.

A core opens an incident. Everything else joins the incident whose process it cannot contradict: by PID where
both name one, by thread id for kernel lines (their number is a thread id). With one incident, what names no
process joins it; with several, it joins none and stays a named gap: a guess could blame the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import KernelFact, fact_of
from analyzers.contracts.report import Gap, Process
from analyzers.triage.build import Group
from analyzers.triage.faults import FATAL_SHAPES, one_fault
from analyzers.triage.lives import Life, one_life
from analyzers.triage.material import Material


@dataclass
class _Open:
    pids: set[int] = field(default_factory=set)
    tids: frozenset[int] = frozenset()
    evidence: list[Evidence] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    process: Process = field(default_factory=Process)
    lives: list[Life] = field(default_factory=list)

    def takes(self, item: Evidence) -> bool:
        """True when this incident's process and the evidence's do not contradict each other."""
        kernel = fact_of(item, KernelFact)
        if kernel is not None and kernel.tid is not None and kernel.shape in FATAL_SHAPES and self.tids:
            return kernel.tid in self.tids
        pid = item.incarnation.pid
        return pid is None or not self.pids or pid in self.pids


def group(materials: Sequence[Material]) -> tuple[list[Group], list[Gap]]:
    """The incidents in the order of their anchors, and the gaps that belong to none."""
    anchors = [material for material in materials if material.anchor]
    loose: list[Gap] = []
    if not anchors:
        materials, loose = one_fault(materials)
    opened = [_from_anchor(material) for material in anchors] or [_Open()]
    for material in (m for m in materials if not m.anchor):
        loose += material.gaps
        _spread(material, opened, loose)
    return [_closed(item) for item in opened], loose


def _from_anchor(material: Material) -> _Open:
    pid = material.process.pid
    return _Open(
        pids={pid} if pid is not None else set(),
        tids=material.tids,
        evidence=list(material.evidence),
        gaps=list(material.gaps),
        process=material.process,
    )


def _spread(material: Material, opened: list[_Open], loose: list[Gap]) -> None:
    for incident in opened:
        incident.lives += material.lives
    homeless: list[Evidence] = []
    for item in material.evidence:
        homes = [incident for incident in opened if incident.takes(item)]
        if len(homes) == 1:
            homes[0].evidence.append(item)
        else:
            homeless.append(item)
    if len(opened) == 1 and material.process.pid is not None and opened[0].process.pid is None:
        opened[0].process = material.process
    if homeless:
        loose.append(_homeless(_name(material, homeless[0]), len(homeless), len(opened)))


def _name(material: Material, item: Evidence) -> str:
    return material.inputs[0].name if material.inputs else item.source.partition(":")[0]


def _homeless(name: str, number: int, incidents: int) -> Gap:
    if incidents == 1:
        return Gap(
            what=f"{number} facts of {name}", why="they are about other processes and were not counted"
        )
    return Gap(
        what=f"{number} facts of {name}",
        why="they do not say to which of these incidents they belong, so they were not counted",
        command="give one core at a time, each with its own log",
    )


def _closed(item: _Open) -> Group:
    own = {evidence.id for evidence in item.evidence}
    lives = [life for life in item.lives if life.ids & own]
    kept, gaps = one_life(item.evidence, lives)
    return Group(tuple(kept), (*item.gaps, *gaps), item.process)
