"""Finding the one ``server_queue`` in a core: from futex words, registers and stack words.

Each stage must give exactly one address that passes the structural check; two stop the search, because a
guess between them could be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analyzers.core.memory import WORD, Memory
from analyzers.core.model import Core, ThreadRegisters
from analyzers.core.queue import QueueOffsets, QueueState, candidates, queues_at

MAX_STACK_SCAN = 256 << 10  # bytes; a load or unload beneath start_loop uses under 64 KB of stack
LOOP_FRAME_BYTES = 512  # start_loop's own frame is 144 bytes in both builds looked at
CALLEE_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")


@dataclass(frozen=True)
class Found:
    """The queue, or why there is none."""

    queue: QueueState | None = None
    note: str | None = None


def find_queue(
    core: Core,
    memory: Memory,
    loop: ThreadRegisters | None,
    loop_address: int | None,
    layouts: Sequence[QueueOffsets],
) -> Found:
    """The queue of the thread ``loop``, or of the only server when it is None.

    ``loop_address`` is start_loop's address in its frame: where it stands on the stack, that frame begins.
    """
    tids = frozenset(thread.tid for thread in core.threads)
    for addresses_for in _stages(core, memory, loop, loop_address):
        queues = [q for layout in layouts for q in queues_at(memory, addresses_for(layout), tids, layout)]
        if len(queues) == 1:
            return Found(queues[0])
        if queues:
            return Found(note=f"{len(queues)} queues fit")
    return Found(note="no queue found")


def _stages(
    core: Core,
    memory: Memory,
    loop: ThreadRegisters | None,
    loop_address: int | None,
) -> Iterator[Callable[[QueueOffsets], set[int]]]:
    """Where to look, surest first: for a layout, the addresses that may be a queue."""
    if loop is not None:
        yield lambda layout: candidates(loop, layout)
        pointers = _pointers(memory, loop, loop_address)
        yield lambda layout: pointers
    yield lambda layout: {at for thread in core.threads for at in candidates(thread, layout)}


def _pointers(memory: Memory, loop: ThreadRegisters, loop_address: int | None) -> set[int]:
    """Values of the loop's registers and stack that point into writable dumped memory.

    start_loop keeps ``this`` in a callee-saved register, which whatever it calls leaves alone or pushes.
    """
    sp = loop.registers.get("rsp", 0)
    words = memory.words(sp, MAX_STACK_SCAN)
    if loop_address in words:
        words = words[: words.index(loop_address) + LOOP_FRAME_BYTES // WORD]
    values = set(words) | {loop.registers.get(name, 0) for name in CALLEE_SAVED}
    return {value for value in values if _may_hold_queue(memory, value)}


def _may_hold_queue(memory: Memory, value: int) -> bool:
    segment = memory.segment_at(value) if value % WORD == 0 else None
    return segment is not None and segment.writable
