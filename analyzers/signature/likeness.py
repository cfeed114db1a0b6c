"""How alike two stacks are, for variants that the exact keys part: cut, inlined, or rebuilt.

The measure is the position-dependent one of Dang et al., "ReBucket" (ICSE 2012): common frames count the
more the nearer they are to the fault, and the less the further one stack has shifted against the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from analyzers.contracts.facts import Frame, StackFact
from analyzers.stacks import frames as meaning

# Weight of a common frame falls by this per frame from the fault: the sixth counts a sixth of the first, as
# the outer frames of a server's threads are the same in most of its crashes.
DEPTH_DECAY = 0.35
# And by this per frame of shift: one function inlined or one frame lost costs an eighth, three cost a third.
SHIFT_DECAY = 0.13
FRAMES = 24  # telling frames that are compared; what lies further out weighs under a thousandth
# Frames within which the other stack's innermost one must be found: an optimiser or a lost frame removes one
# or two on one side, while two bugs of neighbouring functions each keep their own innermost.
ANCHOR = 3


def telling_names(stack: StackFact | None) -> tuple[str, ...]:
    """Names of the frames that say something, innermost first: recursion folded, without inlined frames,
    plumbing, and all that a rebuild changes in a name. Up to FRAMES of them."""
    if stack is None:
        return ()
    folded = meaning.fold([frame for frame in stack.frames if not frame.inlined])
    kept = [frame for frame in folded if frame.function and not meaning.is_plumbing(frame)]
    return tuple(_turned(kept))[:FRAMES]


def _turned(frames: Sequence[Frame]) -> list[str]:
    """The names, a recursion's in a fixed order: where in its cycle the stack ran out is chance."""
    out: list[str] = []
    cycle: set[str] = set()
    for frame in frames:
        name = meaning.name_of(frame)
        if frame.repeat > 1 or name in cycle:
            cycle.add(name)
            continue
        out, cycle = [*_before(out, cycle), *sorted(cycle), name], set()
    return [*_before(out, cycle), *sorted(cycle)]


def _before(names: list[str], cycle: set[str]) -> list[str]:
    """Without what stands of the cycle's first round."""
    end = len(names)
    while end and names[end - 1] in cycle:
        end -= 1
    return names[:end]


def recurses(stack: StackFact | None) -> bool:
    """True when some function or short cycle of functions stands on the stack again and again."""
    return stack is not None and any(frame.repeat > 1 for frame in meaning.fold(stack.frames))


def anchored(left: Sequence[str], right: Sequence[str]) -> bool:
    """The innermost frame of one stack stands near the fault in the other."""
    return bool(left and right) and (left[0] in right[:ANCHOR] or right[0] in left[:ANCHOR])


def likeness(left: Sequence[str], right: Sequence[str]) -> float:
    """0 to 1: the weight of the frames in common, in order, over the most the shorter stack could have.

    So a stack that was cut on its outer side is as like as a whole one. 0 for a stack without names.
    """
    short = min(len(left), len(right))
    if not short:
        return 0.0
    best = [0.0] * (len(right) + 1)
    for i, name in enumerate(left):
        diagonal = 0.0
        for j, other in enumerate(right):
            above = best[j + 1]
            common = diagonal + _weight(i, j) if name == other else 0.0
            best[j + 1] = max(above, best[j], common)
            diagonal = above
    return best[-1] / sum(exp(-DEPTH_DECAY * k) for k in range(short))


def _weight(i: int, j: int) -> float:
    return exp(-DEPTH_DECAY * min(i, j) - SHIFT_DECAY * abs(i - j))
