"""The queue loop's state from stacks alone, where no core gave it: live snapshots and pasted backtraces."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import LoopFact, StackFact, fact_of, to_evidence
from analyzers.core.loopframes import IN_CALLBACK, LoopFrames, loop_frames


def with_loop(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The evidence plus the loop's state, when one thread is the queue loop and its last frames decide."""
    if any(item.kind == LoopFact.KIND for item in evidence):
        return tuple(evidence)
    pairs = [(item, stack) for item in evidence if (stack := fact_of(item, StackFact)) is not None]
    found = [(item, loop) for item, stack in pairs for loop in loop_frames([stack])]
    loops = list({_who(at, loop): (item, loop) for at, (item, loop) in enumerate(found)}.values())
    fact = _state(loops[0][1]) if len(loops) == 1 else None
    if fact is None:
        return tuple(evidence)
    item, loop = loops[0]
    derived = to_evidence(
        fact,
        id=f"{item.id}-loop",
        source=item.source,
        text=f"queue loop {_word(fact)}, by the frames of thread {loop.stack.tid}",
        trust=item.trust,
        wall=item.wall,
        mono=item.mono,
        incarnation=item.incarnation,
    )
    return (*evidence, derived)


def _who(at: int, loop: LoopFrames) -> tuple[str, int]:
    """Two snapshots of one live thread are one loop; stacks without a thread id are each their own."""
    tid = loop.stack.tid
    return ("tid", tid) if tid is not None and loop.stack.live else ("at", at)


def _state(loop: LoopFrames) -> LoopFact | None:
    """Inside the sleep callback frames may leave open which way it goes: the sleeping flag is set in both."""
    phases = loop.phases()
    tid = loop.stack.tid
    if len(phases) == 1:
        return LoopFact(phase=next(iter(phases)), how=("frames",), tid=tid)
    return (
        LoopFact(phase="unknown", how=("frames",), tid=tid, sleeping=True) if phases == IN_CALLBACK else None
    )


def _word(fact: LoopFact) -> str:
    return "going to sleep or waking" if fact.phase == "unknown" else fact.phase
