"""What of a process's memory a minimal core holds, and the reading of it.

Every thread's stack from its stack pointer to the end; small writable mappings; of every mapped ELF file the
first page, the RELRO range, the dynamic section and the notes; the dynamic linker's list of libraries; what
registers point to. That
is what gdb and eu-stack need to name the libraries and to unwind all the way (measured; the unwind tables
themselves they take from the files). The program's arguments and environment, which stand above the main
thread's stack, are blanked.
"""

from bisect import bisect_left
from time import monotonic

from collector.capture.crash import limits
from collector.capture.crash.corefile import PAGE, Segment
from collector.capture.crash.links import library_list
from collector.capture.crash.maps import Mapping, Maps
from collector.capture.crash.modules import mapped_build_id, ranges_of_module
from collector.capture.crash.pointed import keep_pointed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from collector.capture.crash.notes import Thread

    Read = Callable[[int, int], bytes]  # (address, size): the bytes there, fewer where the memory ends

_PIECE = 1 << 20
_ADDRESSES = 1 << 47  # of user space; /proc/PID/mem takes no higher ones


class Stack:
    """What was kept of one thread's stack: from ``start`` to ``end``; ``whole`` up to its mapping's end."""

    __slots__ = ("end", "sp", "start", "tid", "whole")

    def __init__(self, tid: int, sp: int, start: int = 0, end: int = 0, whole: bool = False) -> None:
        self.tid, self.sp, self.start, self.end, self.whole = tid, sp, start, end, whole


class Kept:
    """Disjoint pieces of memory, taken one after the other until a bound is reached."""

    def __init__(self, read: "Read", maps: Maps, blank: tuple[int, int] = (0, 0)) -> None:
        self.segments: list[Segment] = []
        self.stacks: list[Stack] = []
        self.notes: list[str] = []
        self.build_ids: dict[bytes, str] = {}
        self.bytes = 0
        self.until = monotonic() + limits.MEMORY_SECONDS
        self._read, self._maps, self._blank = read, maps, blank
        self._starts: list[int] = []

    def take(self, start: int, end: int, flags: int = 6) -> int:
        """Keep the pages of [start, end) that are not kept yet; bytes taken. Stops at what cannot be read."""
        at, end = max(0, start) & -PAGE, min(end + PAGE - 1 & -PAGE, _ADDRESSES)
        taken = 0
        while at < end and self.bytes < limits.KEPT_BYTES and monotonic() < self.until:
            number = bisect_left(self._starts, at + 1)
            before = self.segments[number - 1] if number else None
            if before is not None and before.address + before.size > at:
                at = before.address + before.size
                continue
            free = min(end, self._starts[number] if number < len(self._starts) else end)
            data = self._bytes(at, min(free, at + limits.KEPT_BYTES - self.bytes))
            if not data:
                break
            self.segments.insert(number, Segment(at, data, flags=flags))
            self._starts.insert(number, at)
            self.bytes += len(data)
            taken += len(data)
            at += len(data)
        return taken

    def holds(self, start: int, end: int) -> bool:
        """Whether all of [start, end) is kept, in one piece or in several."""
        number = max(0, bisect_left(self._starts, start + 1) - 1)
        while start < end and number < len(self.segments) and self._starts[number] <= start:
            start = max(start, self._starts[number] + self.segments[number].size)
            number += 1
        return start >= end

    def _bytes(self, start: int, end: int) -> bytes:
        parts, at = [], start
        while at < end:
            part = self._read(at, min(_PIECE, end - at))
            part = part[: len(part) & -PAGE]
            if not part:
                break
            parts.append(part)
            at += len(part)
        return self._blanked(start, b"".join(parts))

    def _blanked(self, start: int, data: bytes) -> bytes:
        low, high = max(self._blank[0], start) - start, min(self._blank[1], start + len(data)) - start
        return data[:low] + bytes(high - low) + data[high:] if low < high else data


def keep(
    read: "Read",
    maps: Maps,
    threads: "Sequence[Thread]",
    auxv: dict[int, int],
    blank: tuple[int, int] = (0, 0),
) -> Kept:
    """The memory of a minimal core. ``threads``: registers, the crashing thread's first; ``blank``: the range
    of the arguments and the environment. Raises what ``read`` raises.
    """
    kept = Kept(read, maps, blank)
    _stacks(kept, ((thread.tid, thread.sp) for thread in threads), maps)
    keep_pointed(kept, maps, threads, read)
    _small_maps(kept, maps)
    _modules(kept, maps, read)
    for start, size in library_list(read, auxv):
        kept.take(start, start + size)
    if monotonic() >= kept.until:
        kept.notes.append(f"memory: the reading took longer than {limits.MEMORY_SECONDS} s and was ended")
    if kept.bytes >= limits.KEPT_BYTES:
        kept.notes.append(f"memory: more than {limits.KEPT_BYTES} bytes to keep, the rest was left out")
    return kept


def _stacks(kept: Kept, stack_pointers: "Iterable[tuple[int, int]]", maps: Maps) -> None:
    left_out = 0
    for tid, sp in stack_pointers:
        mapping = maps.at(sp) or maps.above(sp, limits.GUARD_REACH)
        if mapping is None or kept.bytes >= limits.STACKS_BYTES or monotonic() >= kept.until:
            kept.stacks.append(Stack(tid, sp))
            left_out += 1
            continue
        kept.stacks.append(_stack(kept, tid, sp, mapping))
    if left_out:
        kept.notes.append(f"stacks: {left_out} threads' were left out: no mapping, no room or no time")


def _stack(kept: Kept, tid: int, sp: int, mapping: Mapping) -> Stack:
    """A stack larger than its bound loses its middle: both ends tell more than one."""
    start = max(sp - limits.RED_ZONE, mapping.start) & -PAGE
    room = min(limits.STACK_BYTES, limits.STACKS_BYTES - kept.bytes) & -PAGE
    if mapping.end - start <= room:
        kept.take(start, mapping.end, mapping.flags)
    else:
        kept.take(start, start + room // 2, mapping.flags)
        kept.take(mapping.end - room // 2, mapping.end, mapping.flags)
    whole = mapping.end - start <= room and kept.holds(start, mapping.end)
    return Stack(tid, sp, start, mapping.end, whole)


def _small_maps(kept: Kept, maps: Maps) -> None:
    before, left_out = kept.bytes, 0
    for row in maps.rows:
        small = row.size <= (limits.SMALL_MAP if row.is_file else limits.SMALL_ANONYMOUS)
        if row.path == b"[vdso]":
            kept.take(row.start, row.end, row.flags)
        elif row.writable and row.readable and small and not row.path.startswith(b"/dev/"):
            if kept.bytes - before >= limits.SMALL_MAPS_BYTES:
                left_out += 1
            else:
                kept.take(row.start, row.end, row.flags)
    if left_out:
        kept.notes.append(f"memory: {left_out} small writable mappings were left out, there was no room")


def _modules(kept: Kept, maps: Maps, read: "Read") -> None:
    seen: set[bytes] = set()
    for row in maps.rows:
        named = row.is_file and row.readable and not row.offset and not row.path.startswith(b"/dev/")
        if not named or row.path in seen:
            continue
        if len(seen) >= limits.MODULES:
            kept.notes.append(f"modules: only {limits.MODULES} were looked at")
            return
        page = read(row.start, PAGE)
        if page[:4] != b"\x7fELF":
            continue
        seen.add(row.path)
        kept.take(row.start, row.start + PAGE, row.flags)
        for start, size in ranges_of_module(page, row.start):
            kept.take(start, start + size, row.flags)
        found = mapped_build_id(read, page, row.start)
        if found is not None:
            kept.build_ids[row.path] = found
