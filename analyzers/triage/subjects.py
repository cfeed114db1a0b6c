"""The deaths that the inputs tell of, one by one, before they are joined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import AbortFact, CoreFact, ExitFact, StackFact, fact_of
from analyzers.contracts.report import Gap, Process
from analyzers.contracts.watched import HostFact
from analyzers.triage.dying import deaths_in
from analyzers.triage.faults import foreign_record, named_in, server_fault
from analyzers.triage.lives import CLOCKS, Life
from analyzers.triage.material import CoreWork, Material

T = TypeVar("T")
# Abort texts that are a process's last words; the others (a CUDA error, a failed allocation) are often
# caught, and the server lives on.
LAST_WORDS = ("ggml-assert", "ggml-abort", "wake-reload", "terminate", "stack-smash", "malloc")
SIGABRT = 6
CONTAINER_INIT = 1  # a process that is the first of its container has this PID there and another on the host


@dataclass
class Open:
    """One incident while evidence is joined to it. ``who`` is its process as far as it is known.

    ``clocks``: those by which it may be joined; ``one_boot`` False: the inputs are of several boots, so that
    seconds since boot say nothing without the boot's id.
    """

    who: Incarnation = field(default_factory=Incarnation)
    tids: frozenset[int] = frozenset()
    evidence: list[Evidence] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    process: Process = field(default_factory=Process)
    lives: list[Life] = field(default_factory=list)
    core: CoreWork | None = None
    apart: bool = False
    clocks: tuple[str, ...] = CLOCKS
    one_boot: bool = True
    memory: dict[str, tuple[Hashable, Any]] = field(default_factory=dict, repr=False, compare=False)

    def takes(self, item: Evidence) -> bool:
        """True when this incident's process and the evidence's do not contradict each other."""
        kernel = named_in(item)
        known = self.tids | ({self.who.pid} if self.who.pid is not None else set())
        if kernel is not None and kernel.tid is not None and known:
            return kernel.tid in known
        return self.who.same_as(item.incarnation)

    @property
    def counts_apart(self) -> bool:
        """Its core's numbers are those of a container, not the host's."""
        return self.core is not None and (self.apart or self.process.pid == CONTAINER_INIT)

    def once(self, name: str, made: Callable[[], T]) -> T:
        """``made()``, kept until more evidence is joined: many deaths are compared each with each."""
        grown = (len(self.evidence), len(self.lives), len(self.tids), self.process.port)
        now = (*grown, self.clocks, self.one_boot, self.who.boot_id)
        known = self.memory.get(name)
        if known is None or known[0] != now:
            known = self.memory[name] = (now, made())
        return cast("T", known[1])

    @property
    def threads(self) -> frozenset[int]:
        """Thread ids of its core and of the stacks that were joined."""
        return self.once("threads", self._threads)

    def _threads(self) -> frozenset[int]:
        stacks = (fact_of(item, StackFact) for item in self.evidence)
        return self.tids | {stack.tid for stack in stacks if stack is not None and stack.tid is not None}

    @property
    def signal(self) -> int | None:
        """What ended it, as its core, its supervisor or its own last words say; 0 counts as unknown."""
        return self.once("signal", self._signal)

    def _signal(self) -> int | None:
        for item in self.evidence:
            core, end = fact_of(item, CoreFact), fact_of(item, ExitFact)
            number = core.signal if core else end.signal if end and not end.requested else None
            if number:
                return number
        return SIGABRT if any(has_last_words(item) for item in self.evidence) else None

    def died(self, clock: str) -> float | None:
        """The first word about its end on ``clock`` (wall | mono)."""
        return self.once(f"died {clock}", lambda: self._died(clock))

    def _died(self, clock: str) -> float | None:
        stamps = [self.at(item, clock) for item in deaths_in(self.evidence)]
        return min((stamp for stamp in stamps if stamp is not None), default=None)

    def at(self, item: Evidence, clock: str) -> float | None:
        """The fact's stamp on ``clock``, where that can be compared with this incident's."""
        if clock not in self.clocks or (clock == "mono" and not self._counts(item)):
            return None
        stamp = getattr(item, clock)
        return float(stamp) if stamp is not None else None

    def _counts(self, item: Evidence) -> bool:
        boot = item.incarnation.boot_id
        known = Incarnation(boot_id=boot).same_as(Incarnation(boot_id=self.who.boot_id))
        return known and (self.one_boot or boot is not None)


def opened(material: Material) -> Open:
    """The incident that an anchor opens."""
    process = material.process
    inside = material.core is not None and (material.apart or process.pid == CONTAINER_INIT)
    own = process.pid if not inside else None
    return Open(
        who=Incarnation(pid=own, start_time=process.start_time, boot_id=process.boot_id),
        tids=material.tids,
        evidence=list(material.evidence),
        gaps=list(material.gaps),
        process=process,
        lives=list(material.lives),
        core=material.core,
        apart=material.apart,
    )


def dying_lives(material: Material) -> Iterator[tuple[Life, Incarnation]]:
    """Lives of a text of which it tells that they died: by PID, by their router, or in their last words."""
    hosts = [item for item in material.evidence if item.kind == HostFact.KIND]
    dead = {item.incarnation.pid for item in (*ends_of(material.evidence), *hosts)} - {None}
    for life in material.lives:
        reported = life.child is not None and life.child.died
        if life.pid in dead or reported or any(has_last_words(item) for item in life.items):
            yield life, life.who


def ends_of(evidence: Sequence[Evidence]) -> list[Evidence]:
    """What a supervisor or the kernel says of a server's end that nobody asked for."""
    told = (item for item in deaths_in(evidence) if item.data.get("by") != "trace")
    return [item for item in told if item.trust is not Trust.CLIENT and not foreign_record(item)]


def has_last_words(item: Evidence) -> bool:
    """True for a text with which a process ends, in the server's own output."""
    fact = fact_of(item, AbortFact)
    return fact is not None and fact.shape in LAST_WORDS and item.trust is not Trust.CLIENT


def told_by_the_kernel(parts: Sequence[Material]) -> list[Open]:
    """Several deaths of which the kernel alone tells. Beside a log they may be anybody's, and stay a gap."""
    if any(part.lives or part.process.pid is not None for part in parts):
        return []
    deaths: dict[tuple[str | None, int], list[Evidence]] = defaultdict(list)
    for item in (item for part in parts for item in part.evidence):
        if item.trust is not Trust.CLIENT and (tid := server_fault(item)) is not None:
            deaths[item.incarnation.boot_id, tid].append(item)
    return [
        Open(who=Incarnation(boot_id=items[0].incarnation.boot_id), tids=frozenset({tid}), evidence=items)
        for (_, tid), items in deaths.items()
    ]
