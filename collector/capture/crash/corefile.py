"""Writes an ELF core (ET_CORE, x86-64) from notes and memory, piece by piece: gdb and eu-stack read it.

Layout as the kernel's: header, program headers (PT_NOTE first), notes, then each segment's bytes at an
offset that is congruent to its address modulo the page size, as both readers map it. Pages of zeros
become holes.
"""

import os
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Read = Callable[[int, int], bytes]

EXECUTE, WRITE, READ = 1, 2, 4
PAGE = 4096
MAX_SEGMENTS = 65_000  # below PN_XNUM (65,535), from where the count moves to a section header
MAX_ADDRESS = 1 << 64
MAX_BYTES = 1 << 40  # of one file; callers give their own, lower bounds
PIECE = 1 << 20  # bytes asked of a reader at a time
_HEADER_SIZE, _PROGRAM_HEADER_SIZE = 64, 56
_PT_LOAD, _PT_NOTE, _ET_CORE, _X86_64 = 1, 4, 4, 62
_PROGRAM_HEADER = Struct("<IIQQQQQQ")
_ZEROS = bytes(PAGE)


class Segment:
    """Memory at ``address``: ``data``, or what ``read(address, length)`` gives for ``size`` bytes.

    ``size`` may be larger than ``data``: the rest is known to have been there and is not in the file.
    A reader that gives less than asked ends its segment: zeros stand for the rest, and
    ``Written.unread`` counts them.
    """

    __slots__ = ("address", "data", "flags", "read", "size")

    def __init__(
        self,
        address: int,
        data: bytes = b"",
        *,
        size: int | None = None,
        flags: int = READ | WRITE,
        read: "Read | None" = None,
    ) -> None:
        self.address = address
        self.data = data
        self.size = len(data) if size is None else size
        self.flags = flags
        self.read = read

    @property
    def file_size(self) -> int:
        """Bytes of it that stand in the file."""
        return self.size if self.read is not None else len(self.data)

    def pieces(self) -> "Iterator[bytes]":
        """Its bytes, at most a mebibyte at a time; ends early where the reader does."""
        if self.read is None:
            yield self.data
            return
        at, end = self.address, self.address + self.size
        while at < end:
            piece = self.read(at, min(PIECE, end - at))[: end - at]
            if not piece:
                return
            yield piece
            at += len(piece)


class Written:
    """The file's ``size`` in bytes, and how many were ``unread``: promised by a reader and not given."""

    __slots__ = ("size", "unread")

    def __init__(self, size: int, unread: int) -> None:
        self.size = size
        self.unread = unread


def write_core(
    descriptor: int, notes: bytes, segments: "Sequence[Segment]", *, limit: int = MAX_BYTES
) -> Written:
    """Write a core to an empty regular file. Not synced: that is the caller's.

    ``notes`` is the whole note segment. Raises ValueError, before anything is written, for segments that
    overlap, leave the address space, are too many, or need more than ``limit`` bytes; OSError for the disk.
    """
    rows = sorted(segments, key=lambda segment: segment.address)
    _demand_sound(rows)
    notes_at = _HEADER_SIZE + _PROGRAM_HEADER_SIZE * (len(rows) + 1)
    offsets, end = _offsets(rows, notes_at + len(notes))
    if end > limit:
        raise ValueError(f"the core needs {end} bytes, more than {limit}")
    head = [_header(len(rows) + 1), _PROGRAM_HEADER.pack(_PT_NOTE, 0, notes_at, 0, 0, len(notes), 0, 4)]
    head += [_program_header(row, offset) for row, offset in zip(rows, offsets, strict=True)]
    _write(descriptor, b"".join(head) + notes, 0)
    unread = sum(_write_segment(descriptor, row, offset) for row, offset in zip(rows, offsets, strict=True))
    os.ftruncate(descriptor, end)
    return Written(end, unread)


def _demand_sound(rows: "Sequence[Segment]") -> None:
    if len(rows) > MAX_SEGMENTS:
        raise ValueError(f"{len(rows)} segments, more than {MAX_SEGMENTS}")
    demand_sound((row.address, row.size) for row in rows)
    for row in rows:
        if row.size < len(row.data):
            raise ValueError(f"the segment at {row.address:#x} holds more than its size")


def demand_sound(ranges: "Iterable[tuple[int, int]]") -> None:
    """(address, size) of segments in the order of their addresses, as a kernel writes them: on page
    boundaries, apart from each other, within the address space. Raises ValueError for others."""
    last = 0
    for address, size in ranges:
        if address % PAGE:
            raise ValueError(f"the segment at {address:#x} begins on no page boundary")
        if address < last or size < 0 or address + size > MAX_ADDRESS:
            raise ValueError(f"the segment at {address:#x} overlaps, or leaves the address space")
        last = address + size


def _offsets(rows: "Sequence[Segment]", end: int) -> tuple[list[int], int]:
    """Where each segment stands in the file, and where the file ends."""
    offsets = []
    for row in rows:
        end += (row.address - end) % PAGE
        offsets.append(end)
        end += row.file_size
    return offsets, end


def _header(count: int) -> bytes:
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    rest = Struct("<HHIQQQIHHHHHH").pack(
        _ET_CORE, _X86_64, 1, 0, _HEADER_SIZE, 0, 0, _HEADER_SIZE, _PROGRAM_HEADER_SIZE, count, 0, 0, 0
    )
    return ident + rest


def _program_header(row: Segment, offset: int) -> bytes:
    address, held, size = row.address, row.file_size, row.size
    return _PROGRAM_HEADER.pack(_PT_LOAD, row.flags, offset, address, 0, held, size, PAGE)


def _write_segment(descriptor: int, row: Segment, offset: int) -> int:
    """Bytes of the segment that its reader did not give."""
    at = offset
    for piece in row.pieces():
        write_sparse(descriptor, piece, at)
        at += len(piece)
    return offset + row.file_size - at


def write_sparse(descriptor: int, data: "bytes | memoryview", at: int) -> int:
    """Write ``data`` at file position ``at``, whole pages of zeros left as holes; the bytes really written.

    The file's size is the caller's to set: a hole at the end leaves it short.
    """
    view = memoryview(data)
    written = start = 0
    for page in range(0, len(view), PAGE):
        if view[page : page + PAGE] == _ZEROS:
            written += _write(descriptor, view[start:page], at + start)
            start = page + PAGE
    return written + _write(descriptor, view[start:], at + start)


def _write(descriptor: int, data: "bytes | memoryview", at: int) -> int:
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done:], at + done)
    return done
