"""The server's ``server_queue`` in the memory of a core: its layout, the structural check, its flags.

Layouts: debug information of the builds named below (tools/server/server-queue.h of llama.cpp); those of
``std::deque`` in libstdc++ and of ``pthread_mutex_t`` and ``pthread_cond_t`` in glibc on x86-64.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from analyzers.core.memory import Memory
from analyzers.core.model import ThreadRegisters

SYS_FUTEX = 202
FUTEX_COMMAND = 0x7F  # the rest of the operation word are the flags PRIVATE and CLOCK_REALTIME
FUTEX_WAIT = 0  # glibc waits for a mutex with it
FUTEX_WAIT_BITSET = 9  # glibc waits on a condition with it, timed or not
# The futex word inside pthread_cond_t (__g_signals): +40 and +44 up to glibc 2.40; newer ones, without
# __g_refs, +32 and +36. The structural check decides between them.
CONDITION_WORDS = (40, 44, 32, 36)
CONDITION_SIZE = 48
MUTEX_STATES = frozenset({0, 1, 2})  # free, locked, locked with waiters
DEQUE = struct.Struct("<10Q")  # map, map size, start {cur, first, last, node}, finish {the same}
DEQUE_MIN_MAP = 8  # libstdc++'s initial map size
DEQUE_MAX_MAP = 1 << 24  # a queue of 16 million tasks would not be a live server
DEQUE_MAX_NODE = 1 << 16  # bytes of one node: 512, or one element when larger (server_task: about 1 KB)
MAX_UPTIME_MS = 20 * 365 * 86_400_000  # CLOCK_MONOTONIC starts at boot: no host runs for 20 years


@dataclass(frozen=True)
class QueueOffsets:
    """Byte offsets of the members of ``server_queue``."""

    running: int = 4
    sleeping: int = 5
    stop_request: int = 6
    time_last_task: int = 8
    deques: tuple[int, ...] = (16, 96, 176)
    mutex: int = 256
    condition: int = 296
    worker_condition: int | None = 352


DEFAULT = QueueOffsets()  # b10809, b11063, b11368, b11549
# b8672, b9713, b10229: before the queue of declined tasks and the worker thread.
EARLY = QueueOffsets(deques=(16, 96), mutex=176, condition=216, worker_condition=None)
KNOWN_OFFSETS = (DEFAULT, EARLY)


@dataclass(frozen=True)
class QueueState:
    """The flags of one queue. ``time_last_task_ms`` is CLOCK_MONOTONIC; ``owner`` is the thread that holds
    the mutex, 0 for none."""

    address: int
    offsets: QueueOffsets
    running: bool
    sleeping: bool
    stop_requested: bool
    time_last_task_ms: int
    locked: bool
    owner: int
    next_task: int | None = None


def wait_command(thread: ThreadRegisters) -> int | None:
    """The futex command a thread is blocked in, without flags; None when it is not in futex."""
    if thread.registers.get("orig_rax") != SYS_FUTEX:
        return None
    return thread.registers.get("rsi", 0) & FUTEX_COMMAND


def waits_on_condition(thread: ThreadRegisters) -> bool:
    return wait_command(thread) == FUTEX_WAIT_BITSET


def waits_on(thread: ThreadRegisters, queue: QueueState) -> bool:
    """Whether the thread waits on this queue's condition."""
    into = thread.registers.get("rdi", 0) - queue.address - queue.offsets.condition
    return waits_on_condition(thread) and into in CONDITION_WORDS


def candidates(thread: ThreadRegisters, offsets: QueueOffsets) -> set[int]:
    """Addresses at which a queue would stand if the thread waits on one of its members; unchecked."""
    word, command = thread.registers.get("rdi", 0), wait_command(thread)
    if command == FUTEX_WAIT:
        return {word - offsets.mutex}
    if command != FUTEX_WAIT_BITSET:
        return set()
    conditions = [offsets.condition]
    if offsets.worker_condition is not None:
        conditions.append(offsets.worker_condition)
    return {word - condition - into for condition in conditions for into in CONDITION_WORDS}


def queues_at(
    memory: Memory, addresses: Iterable[int], tids: Collection[int], offsets: QueueOffsets
) -> list[QueueState]:
    """The queues that really stand at any of the addresses."""
    read = (read_queue(memory, address, tids, offsets) for address in sorted(set(addresses)))
    return [state for state in read if state is not None]


def read_queue(
    memory: Memory, address: int, tids: Collection[int], offsets: QueueOffsets
) -> QueueState | None:
    """The queue at ``address``, or None when what stands there is not one.

    A queue has plausible flags and time, three intact deques in a row, and a plain mutex that is free
    or owned by a thread of the core.
    """
    data = memory.read(address, offsets.condition + CONDITION_SIZE) if address % 8 == 0 else b""
    if len(data) < offsets.condition + CONDITION_SIZE:
        return None
    flags = [data[at] for at in (offsets.running, offsets.sleeping, offsets.stop_request)]
    time_ms = struct.unpack_from("<q", data, offsets.time_last_task)[0]
    if max(flags) > 1 or not 0 < time_ms < MAX_UPTIME_MS:
        return None
    lock, count, owner, _, kind = struct.unpack_from("<IIiIi", data, offsets.mutex)
    if lock not in MUTEX_STATES or count or kind or not _owner_fits(lock, owner, tids):
        return None
    if not all(_is_deque(memory, data, at) for at in offsets.deques):
        return None
    running, sleeping, stop = map(bool, flags)
    number = struct.unpack_from("<i", data)[0]  # `id`, the first member in every known layout
    told = number if number >= 0 else None
    return QueueState(address, offsets, running, sleeping, stop, time_ms, bool(lock), owner, told)


def _owner_fits(lock: int, owner: int, tids: Collection[int]) -> bool:
    return owner == 0 or (lock != 0 and owner in tids)


def _is_deque(memory: Memory, data: bytes, at: int) -> bool:
    nodes, count, *iterators = DEQUE.unpack_from(data, at)
    start, finish = iterators[:4], iterators[4:]
    if not DEQUE_MIN_MAP <= count <= DEQUE_MAX_MAP or not nodes <= start[3] <= finish[3] < nodes + 8 * count:
        return False
    if not start[2] - start[1] == finish[2] - finish[1] <= DEQUE_MAX_NODE:
        return False
    return all(
        first <= current < last and _points_to(memory, node, first)
        for current, first, last, node in (start, finish)
    )


def _points_to(memory: Memory, node: int, first: int) -> bool:
    """The map's entry names the node. A core that holds the queue's own page alone lacks the map: then it is
    enough that both stand in writable memory of the process which was not dumped."""
    word = memory.word(node)
    return word == first if word is not None else memory.left_out(node) and memory.known(first)
