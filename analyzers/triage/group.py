"""Which evidence belongs to which incident.

A core opens an incident. Everything else joins the incident whose process it cannot contradict: by PID, start
time and boot where both name them, by thread id for kernel lines (their number is a thread id), by the port
that a core and a log both name. With one incident, what names no process joins it, and a gap says that only
the user's word ties a log to a core; with several, it joins none and stays a named gap: a guess could blame
the wrong one. What a client could have written as the kernel's or a supervisor's word joins nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, KernelFact
from analyzers.contracts.report import Gap, Process
from analyzers.triage.build import Group
from analyzers.triage.dying import one_life
from analyzers.triage.ends import of_this_life
from analyzers.triage.faults import one_fault
from analyzers.triage.lineage import as_its_own, with_life
from analyzers.triage.material import Material
from analyzers.triage.readers.deaths import settled
from analyzers.triage.subjects import Open, dying_lives, opened
from analyzers.triage.ties import disowned, tie_gaps, ties

WORDS_OF_OTHERS = (KernelFact.KIND, ExitFact.KIND)


def group(materials: Sequence[Material]) -> tuple[list[Group], list[Gap]]:
    """The incidents in the order of their anchors, and the gaps that belong to none."""
    loose = [gap for material in materials for gap in _not_believed(material)]
    ours, strangers = _ours([_believed(material) for material in materials])
    found, gaps = _incidents(ours)
    return [_closed(item) for item in found], [*loose, *strangers, *gaps]


def _ours(materials: list[Material]) -> tuple[list[Material], list[Gap]]:
    if not any(item.data.get("result") == "core-dump" for one in materials for item in one.evidence):
        return materials, []
    from analyzers.triage.hosted import without_strangers  # not without a core's record

    return without_strangers(materials)


def _incidents(materials: Sequence[Material]) -> tuple[list[Open], list[Gap]]:
    if len(materials) > 1 or _only_the_kernel(materials) or _of_several(materials):
        from analyzers.triage.joining import deaths  # the relations of several: not for one core
        from analyzers.triage.scopes import bundled

        own = bundled(materials, _incidents)
        several = deaths(own.rest, own.found)
        if several is not None:
            return several[0], [*own.gaps, *several[1]]
    materials = [_believed(material) for material in settled(materials)]
    anchors, loose = _each_core_once([material for material in materials if material.anchor])
    if not anchors:
        materials, gaps = one_fault(materials)
        loose += gaps
    incidents = [opened(material) for material in anchors] or [Open()]
    for material in (m for m in materials if not m.anchor):
        loose += material.gaps
        _spread(material, incidents, loose)
    return incidents, loose


def _only_the_kernel(materials: Sequence[Material]) -> bool:
    """A kernel log alone, which may tell of several deaths."""
    told = [item for material in materials for item in material.evidence]
    return bool(told) and all(item.kind == KernelFact.KIND for item in told)


def _of_several(materials: Sequence[Material]) -> bool:
    """One text in which more than one life died: children of a router, units, containers."""
    lives = [life for material in materials for life in material.lives]
    return len(lives) > 1 and sum(1 for material in materials for _ in dying_lives(material)) > 1


def _each_core_once(anchors: list[Material]) -> tuple[list[Material], list[Gap]]:
    """One core in two files (packed, cut or copied) is one death: the file that told most is read."""
    if len(anchors) < 2:
        return anchors, []
    from analyzers.triage.relations import same_core  # not for one core

    kept: list[tuple[Material, Open]] = []
    gaps = []
    for one in sorted(anchors, key=lambda material: -len(material.evidence)):
        mine = opened(one)
        known = next((other for other, theirs in kept if same_core(mine, theirs)), None)
        if known is None:
            kept.append((one, mine))
            continue
        name, other = (_name(each, each.evidence[0]) for each in (one, known))
        why = f"the same threads stand at the same registers in {other}; one death, counted once"
        gaps.append(Gap(what=f"{name} as a death of its own", why=why))
    return [one for one in anchors if any(one is each for each, _ in kept)], gaps


def _forged(item: Evidence) -> bool:
    return item.kind in WORDS_OF_OTHERS and item.trust is Trust.CLIENT


def _believed(material: Material) -> Material:
    return replace(material, evidence=tuple(item for item in material.evidence if not _forged(item)))


def _not_believed(material: Material) -> list[Gap]:
    left = [item for item in material.evidence if _forged(item)]
    if not left:
        return []
    told = f"{left[0].source}: it has the words of the kernel, a supervisor or a shell"
    why = f"{told}, but anybody could have printed it there; it was read and not believed"
    what = f"{len(left)} lines about an end in {_name(material, left[0])}"
    return [
        Gap(what=what, why=why, command="dmesg > kernel.txt; journalctl -u UNIT -o export > server.export")
    ]


def _spread(material: Material, opened: list[Open], loose: list[Gap]) -> None:
    for incident in opened:
        incident.lives += material.lives
        incident.process = _completed(incident.process, material.process)
    tied, foreign = ties(material.lives, [incident.process.port for incident in opened])
    homeless: list[Evidence] = []
    for item in material.evidence:
        homes = [incident for incident in opened if incident.takes(item)]
        if item.id in tied:
            homes = [opened[tied[item.id]]] if opened[tied[item.id]] in homes else []
        if item.id not in foreign and len(homes) == 1:
            homes[0].evidence.append(item)
        elif item.id not in foreign:
            homeless.append(item)
    if len(opened) == 1 and material.process.pid is not None and opened[0].process.pid is None:
        opened[0].process = material.process
    loose += tie_gaps(material, [i.process for i in opened], tied, foreign)
    if homeless:
        loose.append(_homeless(_name(material, homeless[0]), len(homeless), len(opened)))


def _completed(process: Process, told: Process) -> Process:
    """What a bundle's manifest knows of the very process of the core, and the core itself does not."""
    if process.pid is None or process.pid != told.pid:
        return process
    known = process.model_dump(exclude_none=True, exclude_defaults=True)
    more = told.model_dump(exclude_none=True, exclude_defaults=True)
    parts = {key: {**more.get(key, {}), **known.get(key, {})} for key in ("parent", "model")}
    return Process.model_validate({**more, **known, **{key: part for key, part in parts.items() if part}})


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


def _closed(item: Open) -> Group:
    own = {evidence.id for evidence in item.evidence}
    lives = [life for life in item.lives if life.ids & own]
    evidence = item.evidence
    copies: list[Evidence] = []
    if len({life.name for life in lives}) > 1:
        from analyzers.triage.twins import without_twins  # not for one log

        evidence, lives, copies = without_twins(evidence, lives)
    dated: list[Gap] = []
    if item.core is not None and lives:
        from analyzers.triage.afterwards import before_the_end  # the clocks of a log: not for a core alone

        known = before_the_end(item, evidence, lives)
        evidence, lives, dated = disowned(known.items, item.process, lives), known.lives, known.gaps
    chosen = one_life(evidence, lives, item.process.port)
    unnamed = item.who.pid is None and (chosen.life is None or chosen.life.pid is None)
    who = Incarnation(pid=item.process.pid) if unnamed else item.who  # a bundle's manifest names its process
    kept, more = of_this_life(chosen.items, chosen.life, chosen.later, who, item.tids)
    process = with_life(item.process, chosen.life, lives)
    items = tuple(as_its_own(kept, chosen.life))
    return Group(items, (*item.gaps, *dated, *chosen.gaps, *more), process, item.core, tuple(copies))
