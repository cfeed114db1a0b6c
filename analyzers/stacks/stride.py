"""The fold for endless recursion.

Unwinding frame by frame is quadratic in eu-stack and takes gdb half a minute, and the frame that names
the request stands at the far end. But the repeated return address stands on the stack at a constant
distance, so its last occurrence can be found by a plain search; unwinding starts again behind it.
"""

from __future__ import annotations

import os
import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from analyzers.contracts.facts import Frame, StackFact
from analyzers.core.model import Core, Segment
from analyzers.stacks import eustack, view

WORD = 8
# Fewer equal return addresses than this are an ordinary recursive algorithm (a parser, a tree walk).
MIN_REPEATS = 32
SAMPLE_WORDS = 1 << 16  # 512 KiB of stack: 32 frames of up to 16 KiB each
STACK_BYTES = 64 << 20  # of one thread's stack searched at a time; the default limit is 8 MiB
# A recursion whose frames vary (a regex executor) is followed while repeats are no further apart.
LOOSE_GAP = 64 << 10
CONSTANT_SHARE = 0.8  # share of the commonest distance from which a stride counts as constant
SKIPPED_STRIDES = 8  # repeats of another call site of the same function between two of this one
GUARD_BYTES = 16 << 20  # a stack pointer this far below its segment has run over the guard page
GUARD_PAGE = 4096
CANDIDATES = 4  # the commonest addresses tried as the repeated one
MAX_FOLDS = 3  # a recursion may itself stand in another


@dataclass(frozen=True)
class Recursion:
    """``address`` returns ``repeats`` times on the stack; the outermost stands at stack address ``last``.

    ``stride``: bytes between repeats, 0 when they vary. ``frame_pointer``: the saved one below ``last``.
    """

    address: int
    repeats: int
    stride: int
    last: int
    frame_pointer: int | None = None


def find_recursion(
    core: Core, *, stack_pointer: int | None = None, run: Sequence[int] = ()
) -> Recursion | None:
    """The endless recursion on the crashed thread's stack from ``stack_pointer`` on, or None.

    ``run``: addresses known to be code, such as those of frames that a tool has found.
    """
    if not core.threads:
        return None
    pointer = core.threads[0].registers.get("rsp", 0) if stack_pointer is None else stack_pointer
    segment = _stack_segment(core, pointer)
    if segment is None:
        return None
    begin = max(pointer & -WORD, segment.address)
    size = min(segment.address + segment.file_size - begin, STACK_BYTES) & -WORD
    stack = _read(core.path, segment.file_offset + begin - segment.address, size)
    return _search(stack, begin, _code(core, run))


def _read(path: Path, offset: int, size: int) -> bytes:
    """A part of the file, copied: a mapping would kill us should the file be cut meanwhile."""
    try:
        with path.open("rb") as file:
            return os.pread(file.fileno(), max(0, size), offset)
    except OSError:
        return b""


def _stack_segment(core: Core, pointer: int) -> Segment | None:
    """The segment the pointer is in, or the one it has just run out of at the low end.

    A core that gdb saved holds the guard pages too; only a writable segment is a stack.
    """
    stacks = [s for s in core.segments if s.writable]
    inside = (s for s in stacks if s.address <= pointer < s.address + s.file_size)
    above = (s for s in stacks if 0 < s.address - pointer <= GUARD_BYTES and s.file_size >= GUARD_PAGE)
    return next(inside, None) or min(above, key=lambda s: s.address, default=None)


def _search(stack: bytes, begin: int, code: Sequence[tuple[int, int]]) -> Recursion | None:
    for address in _candidates(code, stack[: SAMPLE_WORDS * WORD]):
        pattern = re.compile(re.escape(struct.pack("<Q", address)))
        found = (match.start() for match in pattern.finditer(stack))
        positions = [at for at in found if at % WORD == 0]
        chain, stride = _chain(positions)
        if len(chain) >= MIN_REPEATS:
            last = chain[-1]
            saved = struct.unpack_from("<Q", stack, last - WORD)[0] if last >= WORD else 0
            pointer = saved if begin + last < saved < begin + len(stack) else None
            return Recursion(address, len(chain), stride, begin + last, pointer)
    return None


def _candidates(code: Sequence[tuple[int, int]], sample: bytes) -> list[int]:
    """The commonest words of the sample that point into code, commonest first."""
    words = Counter(memoryview(sample)[: len(sample) & -WORD].cast("Q"))
    frequent = (word for word, count in words.most_common(256) if count >= MIN_REPEATS)
    pointing = (word for word in frequent if any(low <= word < high for low, high in code))
    return [word for word, _ in zip(pointing, range(CANDIDATES), strict=False)]


def _code(core: Core, run: Sequence[int]) -> list[tuple[int, int]]:
    """Address ranges of code. A core that gdb saved leaves out what stands in the mapped files, code first:
    a mapped part without a segment is code when a thread is in it, or an address of ``run``."""
    known = {segment.address for segment in core.segments}
    run = [*run, *(thread.registers.get("rip", 0) for thread in core.threads)]
    left_out = [(row.start, row.end) for row in core.mapped if row.start not in known]
    entered = [(low, high) for low, high in left_out if any(low <= at < high for at in run)]
    return [(s.address, s.address + s.size) for s in core.segments if s.executable] + entered


def _chain(positions: Sequence[int]) -> tuple[list[int], int]:
    """The longest run of positions that belong to one recursion from the inner end, and its stride."""
    gaps = [later - earlier for earlier, later in pairwise(positions)]
    if not gaps:
        return list(positions), 0
    stride, count = Counter(gaps[:SAMPLE_WORDS]).most_common(1)[0]
    constant = count >= CONSTANT_SHARE * len(gaps[:SAMPLE_WORDS])
    start = gaps.index(stride) if constant else 0
    foreign = {gap for gap in set(gaps) if not _belongs(gap, stride, constant)}
    end = next((at for at in range(start, len(gaps)) if gaps[at] in foreign), len(gaps))
    return list(positions[start : end + 1]), stride if constant else 0


def _belongs(gap: int, stride: int, constant: bool) -> bool:
    if constant:
        return gap % stride == 0 and gap <= stride * SKIPPED_STRIDES
    return gap <= LOOSE_GAP


def fold(
    core: Core, exe: str | Path | None, first: StackFact | None, symbols: Path | None = None
) -> StackFact | None:
    """The crashed thread's whole stack with its recursion folded, or None when it is no endless recursion.

    ``first`` is eu-stack's own attempt from the inner end. The frames are: the head up to the recursion,
    one frame for each member of its cycle with ``repeat`` set, then the tail down to where the thread began.
    """
    head = list(first.frames) if first is not None else []
    run = [frame.ip for frame in head if frame.ip is not None]
    recursion = find_recursion(core, run=run)
    frames: list[Frame] = []
    complete = False
    for _ in range(MAX_FOLDS):
        if recursion is None:
            break
        tail = _unwound_from(core, exe, recursion, symbols)
        frames += _folded(head, recursion, tail)
        head, complete = tail[1:], eustack.reaches_end(tail)
        behind = recursion.last + WORD
        recursion = find_recursion(core, stack_pointer=behind, run=run) if tail and not complete else None
    if not frames:
        return None
    return StackFact(
        tid=core.threads[0].tid, crashed=True, rung="stride", frames=(*frames, *head), complete=complete
    )


def _unwound_from(
    core: Core, exe: str | Path | None, recursion: Recursion, symbols: Path | None = None
) -> list[Frame]:
    """Frames from the outermost repeat on; the first is the repeated frame itself. Empty where none."""
    registers = {"rip": recursion.address, "rsp": recursion.last + WORD}
    if recursion.frame_pointer is not None:
        registers["rbp"] = recursion.frame_pointer
    fd = view.reduced_core(core, registers, recursion.last)
    if fd is None:
        return []
    try:
        place, frames = f"/proc/self/fd/{fd}", eustack.FIRST_FRAMES
        seen = eustack.run_on(place, core, exe, frames=frames, pass_fds=(fd,), symbols=symbols)
    finally:
        os.close(fd)
    return list(seen.stacks[0].frames) if seen.stacks else []


def _folded(head: list[Frame], recursion: Recursion, tail: list[Frame]) -> list[Frame]:
    """Head frames and one period of the cycle, each of its members standing for all its repeats."""
    at = [index for index, frame in enumerate(head) if frame.ip == recursion.address]
    if not at:
        named = tail[0] if tail else Frame(ip=recursion.address)
        return [*head[:1], replace(named, repeat=recursion.repeats)]
    end = at[1] if len(at) > 1 else at[0] + 1
    return head[: at[0]] + [replace(frame, repeat=recursion.repeats) for frame in head[at[0] : end]]
