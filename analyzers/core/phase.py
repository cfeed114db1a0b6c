"""``loop_state``: in which phase the server's queue loop was when the process died.

Four witnesses, each of which allows a set of phases: the queue's flags, the call site of the sleep callback,
the loop's frames, its registers. Their intersection is the answer; an empty or ambiguous one is "unknown".
Threads go on running until the kernel stops them, so the loop may be microseconds further than the fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.contracts.facts import LoopFact, StackFact
from analyzers.core.callsite import FindFile, callback_direction, on_disk
from analyzers.core.locate import find_queue
from analyzers.core.loopframes import ASLEEP, AWAKE, IN_CALLBACK, JUST_WOKEN, LoopFrames, loop_frames
from analyzers.core.memory import Memory
from analyzers.core.model import Core, ThreadRegisters
from analyzers.core.queue import KNOWN_OFFSETS, QueueOffsets, QueueState, waits_on, waits_on_condition

STOPPING = "stopping"
Witnesses = dict[str, frozenset[str]]


@dataclass(frozen=True)
class _Seen:
    """Everything that is known about the loop before it is judged."""

    core: Core
    loop: LoopFrames | None
    thread: ThreadRegisters | None
    queue: QueueState | None


def loop_state(
    core: Core,
    stacks: Sequence[StackFact],
    offsets: Sequence[QueueOffsets] = KNOWN_OFFSETS,
    find_file: FindFile = on_disk,
) -> LoopFact | None:
    """The loop's phase with the witnesses that gave it; None when the core shows no queue loop at all.

    ``phase`` is right or "unknown": on disagreement ``how`` lists what each witness said, and the queue's
    fields stay empty because one of the witnesses was misread. A process that hosts several servers has
    several loops and is "unknown". ``find_file`` maps a mapped path to a file with the code, where the core
    holds none; the file is used only when its build-id is that of the core.
    Raises UserError when the core cannot be opened again.
    """
    loops = loop_frames(stacks)
    if len(loops) > 1:
        return LoopFact(how=tuple(f"loop thread {loop.stack.tid}" for loop in loops))
    loop = loops[0] if loops else None
    with Memory(core) as memory:
        thread = core.thread(loop.stack.tid) if loop else None
        found = find_queue(core, memory, thread, loop.loop.ip if loop else None, offsets)
        if loop is None and found.queue is None:
            return None
        seen = _Seen(core, loop, thread or _loop_thread(core, found.queue), found.queue)
        return _judged(seen, _witnesses(seen, memory, find_file), found.note)


def _witnesses(seen: _Seen, memory: Memory, find_file: FindFile) -> Witnesses:
    said: Witnesses = {"flags": _by_flags(seen), "frames": frozenset(), "call-site": frozenset()}
    if seen.loop is not None:
        said["frames"] = seen.loop.phases()
        if said["frames"] in (IN_CALLBACK, frozenset()):
            said["call-site"] = _by_call_site(seen.core, memory, seen.loop, find_file)
    said["registers"] = _by_registers(seen)
    return {witness: phases for witness, phases in said.items() if phases}


def _by_flags(seen: _Seen) -> frozenset[str]:
    """``sleeping`` is set before the unload and cleared after the reload; the callbacks hold the mutex."""
    queue = seen.queue
    if queue is None:
        return frozenset()
    if not queue.running:
        return frozenset({STOPPING})
    if not queue.sleeping:
        return frozenset({AWAKE, JUST_WOKEN})
    if not queue.locked:
        return frozenset({ASLEEP})
    if seen.thread is None or queue.owner == 0:
        return IN_CALLBACK | {ASLEEP}
    return IN_CALLBACK if queue.owner == seen.thread.tid else frozenset({ASLEEP})


def _by_call_site(core: Core, memory: Memory, loop: LoopFrames, find_file: FindFile) -> frozenset[str]:
    direction = callback_direction(core, memory, loop.loop, find_file)
    return frozenset({direction}) if direction else frozenset()


def _by_registers(seen: _Seen) -> frozenset[str]:
    """A condition wait with a time-out (r10) is the awake loop's; one without is the sleeping loop's.

    Without frames it may also be a task that yields, which waits on the same condition while awake.
    """
    thread, direct = seen.thread, seen.loop is not None and seen.loop.in_wait
    if thread is None or not waits_on_condition(thread):
        return frozenset()
    on_queue = seen.queue is not None and waits_on(thread, seen.queue)
    if not (direct or on_queue):
        return frozenset()
    if thread.registers.get("r10", 0):
        return frozenset({AWAKE})
    return frozenset({ASLEEP}) if direct else frozenset({ASLEEP, AWAKE})


def _loop_thread(core: Core, queue: QueueState | None) -> ThreadRegisters | None:
    """Without frames: the only thread in a timed wait on the queue's condition, which only the loop does.

    A thread that holds the mutex may be a request, and an untimed wait may be a request that wakes it.
    """
    if queue is None:
        return None
    waiting = [thread for thread in core.threads if waits_on(thread, queue)]
    timed = [thread for thread in waiting if thread.registers.get("r10", 0)]
    return timed[0] if len(timed) == 1 else None


def _judged(seen: _Seen, said: Witnesses, note: str | None) -> LoopFact:
    tid = seen.thread.tid if seen.thread else (seen.loop.stack.tid if seen.loop else None)
    if said.get("flags") == frozenset({STOPPING}):
        return _fact(STOPPING, ("flags",), tid, seen.queue)
    phases = frozenset.intersection(*said.values()) if said else frozenset()
    if phases == {AWAKE, JUST_WOKEN}:
        phases = frozenset({AWAKE})
    if len(phases) == 1:
        return _fact(next(iter(phases)), tuple(said), tid, seen.queue)
    spoken = tuple(f"{witness}:{'|'.join(sorted(allowed))}" for witness, allowed in said.items())
    agreed = seen.queue if phases else None
    return _fact("unknown", spoken + ((note,) if note else ()), tid, agreed)


def _fact(phase: str, how: tuple[str, ...], tid: int | None, queue: QueueState | None) -> LoopFact:
    return LoopFact(
        phase=phase,
        how=how,
        tid=tid,
        sleeping=queue.sleeping if queue else None,
        stop_sleeping_requested=queue.stop_requested if queue else None,
        time_last_task_ms=queue.time_last_task_ms if queue else None,
        next_task=queue.next_task if queue else None,
        owner=(queue.owner if queue.locked else 0) if queue else None,
    )
