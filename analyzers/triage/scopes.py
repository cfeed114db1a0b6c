"""What a bundle holds was gathered of one process: it is judged by itself before it meets other inputs.

The kernel's lines of two bundles that are given together are about two deaths, and pooled they would
contradict each other. A core beside the bundle of its process belongs to it: the selection of a host's deaths
gives both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from analyzers.contracts.evidence import Incarnation
from analyzers.contracts.facts import CoreFact, ProbeFact, StackFact
from analyzers.contracts.report import Gap, Process
from analyzers.contracts.watched import HostFact, LookFact
from analyzers.triage.dying import deaths_in
from analyzers.triage.material import Material
from analyzers.triage.subjects import Open, has_last_words

# What is seen of one process alone: a bundle with any of it is an incident of its own.
OF_ONE = (CoreFact.KIND, StackFact.KIND, ProbeFact.KIND, LookFact.KIND, HostFact.KIND)

Grouping = Callable[[Sequence[Material]], tuple[list[Open], list[Gap]]]


@dataclass(frozen=True)
class Bundled:
    """The incidents of bundles, the gaps that belong to none of them, and the ``rest`` of the materials."""

    rest: Sequence[Material]
    found: list[Open] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


def bundled(materials: Sequence[Material], grouping: Grouping) -> Bundled:
    """The incidents of the bundles among ``materials``; ``grouping`` finds those of one.

    Everything is the rest where there is but one bundle and nothing beside it, or where no bundle tells.
    """
    scopes = _scopes(materials)
    several = len(scopes) > 1
    if len(scopes[0] if scopes else materials) == len(materials):
        return Bundled(materials)
    made = Bundled([])
    taken: set[int] = set()
    for scope in scopes:
        found, gaps = grouping([replace(part, bundle=None) for part in scope])
        if not _tells(found, several):
            continue
        made.found.extend(_named(found))
        made.gaps.extend(gaps)
        taken |= {id(material) for material in scope}
    return Bundled([one for one in materials if id(one) not in taken], made.found, made.gaps)


def _scopes(materials: Sequence[Material]) -> list[list[Material]]:
    """The parts of each bundle, with the cores that were given beside it and are of its process alone."""
    names = list(dict.fromkeys(one.bundle for one in materials if one.bundle is not None))
    scopes = {name: [one for one in materials if one.bundle == name] for name in names}
    for core in (one for one in materials if one.anchor and one.bundle is None):
        homes = [name for name, parts in scopes.items() if _of_process(core.process, parts)]
        if len(homes) == 1:
            scopes[homes[0]].append(core)
    return list(scopes.values())


def _of_process(process: Process, parts: Sequence[Material]) -> bool:
    """A bundle with a core of its own needs none, whatever the PIDs."""
    told = next((part.process for part in parts if part.process.pid is not None and not part.anchor), None)
    if told is None or process.pid is None or any(part.anchor for part in parts):
        return False
    return _who(told).pid == process.pid and _who(told).same_as(_who(process))


def _who(process: Process) -> Incarnation:
    return Incarnation(pid=process.pid, start_time=process.start_time, boot_id=process.boot_id)


def _tells(found: Sequence[Open], several: bool) -> bool:
    """The bundle shows a death or a look; beside other bundles, its manifest's process will do."""
    items = [item for one in found for item in one.evidence]
    seen = any(item.kind in OF_ONE or has_last_words(item) for item in items) or bool(deaths_in(items))
    return seen or (several and any(one.process.pid is not None for one in found))


def _named(found: Sequence[Open]) -> Iterator[Open]:
    """With the process that the manifest names, where nothing in the bundle names another one."""
    for one in found:
        others = {life.pid for life in one.lives} - {None, one.process.pid}
        if len(found) == 1 and one.who.pid is None and not others:
            one.who = _who(one.process)
        yield one
