"""The queue loop's state from stacks alone, where no core gave it: live snapshots and pasted backtraces."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import LoopFact, StackFact, fact_of, to_evidence
from analyzers.core.loopframes import loop_frames


def with_loop(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The evidence plus the loop's state, when exactly one stack is a queue loop's and its frames decide."""
    if any(item.kind == LoopFact.KIND for item in evidence):
        return tuple(evidence)
    pairs = [(item, stack) for item in evidence if (stack := fact_of(item, StackFact)) is not None]
    loops = [(item, loop) for item, stack in pairs for loop in loop_frames([stack])]
    if len(loops) != 1 or len(loops[0][1].phases()) != 1:
        return tuple(evidence)
    item, loop = loops[0]
    (phase,) = loop.phases()
    fact = LoopFact(phase=phase, how=("frames",), tid=loop.stack.tid)
    derived = to_evidence(
        fact,
        id=f"{item.id}-loop",
        source=item.source,
        text=f"queue loop {phase}, by the frames of thread {loop.stack.tid}",
        trust=item.trust,
        wall=item.wall,
        mono=item.mono,
        incarnation=item.incarnation,
    )
    return (*evidence, derived)
