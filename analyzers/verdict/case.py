"""One death (or hang) and everything seen of it: the evidence of one incarnation, sorted by kind.

The rules read a ``Case``; they never read files. Facts keep the evidence they came from, so every
sentence of a verdict can name its witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import (
    AbortFact,
    ActionFact,
    AnswerFact,
    CoreFact,
    ExitFact,
    KernelFact,
    LogFact,
    LoopFact,
    MarkFact,
    ModelFileFact,
    PointerFact,
    ProbeFact,
    SettingsFact,
    SocketFact,
    StackFact,
    fact_of,
)
from analyzers.contracts.watched import HostFact, LookFact, MemoryFact
from analyzers.verdict.reading import StackReading, read_stack

F = TypeVar("F")


@dataclass(frozen=True)
class Seen(Generic[F]):
    """A fact together with the evidence that carries it."""

    fact: F
    evidence: Evidence

    @property
    def id(self) -> str:
        return self.evidence.id

    @property
    def forgeable(self) -> bool:
        """True when a client could have written it."""
        return self.evidence.trust is Trust.CLIENT


def ids_of(*groups: Iterable[Seen[Any]]) -> tuple[str, ...]:
    """The evidence ids of all these facts, in order, each once."""
    return tuple(dict.fromkeys(seen.id for group in groups for seen in group))


@dataclass(frozen=True)
class Case:
    """All facts of one incident, in the order they were read."""

    cores: tuple[Seen[CoreFact], ...] = ()
    stacks: tuple[Seen[StackFact], ...] = ()
    loops: tuple[Seen[LoopFact], ...] = ()
    pointers: tuple[Seen[PointerFact], ...] = ()
    kernel: tuple[Seen[KernelFact], ...] = ()
    log: tuple[Seen[LogFact], ...] = ()
    aborts: tuple[Seen[AbortFact], ...] = ()
    exits: tuple[Seen[ExitFact], ...] = ()
    probes: tuple[Seen[ProbeFact], ...] = ()
    sockets: tuple[Seen[SocketFact], ...] = ()
    answers: tuple[Seen[AnswerFact], ...] = ()
    marks: tuple[Seen[MarkFact], ...] = ()
    settings: tuple[Seen[SettingsFact], ...] = ()
    actions: tuple[Seen[ActionFact], ...] = ()
    model_files: tuple[Seen[ModelFileFact], ...] = ()
    looks: tuple[Seen[LookFact], ...] = ()
    memory: tuple[Seen[MemoryFact], ...] = ()
    hosts: tuple[Seen[HostFact], ...] = ()
    readings: tuple[StackReading, ...] = field(default=(), compare=False)
    order: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def crash(self) -> StackReading | None:
        """The faulting thread's stack, from the most telling rung that has one."""
        foreign = {reading.id for reading in self.foreign_traces}
        crashed = [r for r in self.readings if r.stack.crashed and r.id not in foreign]
        return max(crashed, key=lambda reading: reading.rank, default=None)

    @property
    def foreign_traces(self) -> tuple[StackReading, ...]:
        """Traces of a faulting thread that the core's own faulting thread contradicts or cannot confirm."""
        crashed = [reading for reading in self.readings if reading.stack.crashed]
        own = [reading for reading in crashed if reading.from_core]
        if not own:
            return ()
        return tuple(r for r in crashed if not r.from_core and not any(r.agrees_with(o) for o in own))

    @property
    def foreign_core(self) -> bool:
        """The core shows nothing of llama.cpp: another program's, or a server without any name left."""
        return bool(self.cores) and all(seen.fact.server is False for seen in self.cores)

    @property
    def fault_in_model_file(self) -> bool:
        """The fault address lies in the mapping of a GGUF file."""
        return any((seen.fact.fault_file or "").endswith(".gguf") for seen in self.cores)

    @property
    def loop(self) -> Seen[LoopFact] | None:
        """The best statement about the queue loop: the queue's own memory outranks frames."""
        telling = [s for s in self.loops if s.fact.phase != "unknown" or s.fact.sleeping is not None]
        return max(telling, key=lambda seen: ("flags" in seen.fact.how, len(seen.fact.how)), default=None)

    @property
    def overflowed(self) -> bool:
        """The kernel's line or the core shows a fault just below the thread's stack."""
        return any(s.fact.stack_overflow for s in self.kernel) or any(
            s.fact.stack_overflow for s in self.cores
        )

    def position(self, evidence_id: str) -> int:
        """Where this evidence stands in the order of reading; -1 for an unknown id."""
        return self.order.get(evidence_id, -1)

    def events(self, *names: str) -> list[Seen[LogFact]]:
        """Log events of these names, in order."""
        return [seen for seen in self.log if seen.fact.event in names]


def build_case(
    evidence: Iterable[Evidence], reader: Callable[[Seen[StackFact]], StackReading] | None = None
) -> Case:
    """Sort evidence into a Case. Kinds this version does not know are left to the report alone."""
    items: Sequence[Evidence] = list(evidence)
    make = reader or (lambda seen: read_stack(seen.fact, seen.id, forgeable=seen.forgeable))
    stacks = _seen(items, StackFact)
    return Case(
        cores=_seen(items, CoreFact),
        stacks=stacks,
        loops=_seen(items, LoopFact),
        pointers=tuple(seen for seen in _seen(items, PointerFact) if not seen.forgeable),
        # a client can print what looks like a kernel line; the kernel's own never carry that trust
        kernel=tuple(seen for seen in _seen(items, KernelFact) if not seen.forgeable),
        log=_seen(items, LogFact),
        aborts=_seen(items, AbortFact),
        exits=_seen(items, ExitFact),
        probes=_seen(items, ProbeFact),
        sockets=_seen(items, SocketFact),
        answers=_seen(items, AnswerFact),
        marks=_seen(items, MarkFact),
        settings=_seen(items, SettingsFact),
        actions=_seen(items, ActionFact),
        model_files=_seen(items, ModelFileFact),
        looks=_seen(items, LookFact),
        memory=_seen(items, MemoryFact),
        hosts=tuple(seen for seen in _seen(items, HostFact) if not seen.forgeable),
        readings=tuple(make(seen) for seen in stacks),
        order={item.id: at for at, item in enumerate(items)},
    )


def _seen(evidence: Iterable[Evidence], cls: type[F]) -> tuple[Seen[F], ...]:
    pairs = ((fact_of(item, cls), item) for item in evidence)
    return tuple(Seen(fact, item) for fact, item in pairs if fact is not None)
