"""Files and streams as blocks of whole lines, forwards or backwards, in flat memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from analyzers.errors import UserError

BLOCK = 256 * 1024  # bytes a read: fits the second-level cache; twice or half was slower
LINE_KEPT = 64 * 1024  # of a longer line only this much is looked at
SPOOL_MEMORY = 8 * 1024 * 1024  # a stream that must be read backwards lies in memory up to this size


@dataclass(frozen=True)
class Block:
    """Whole lines without the last LF; ``first_line`` counts from 1, 0 where blocks follow each other."""

    data: bytes
    first_line: int
    long_lines: int = 0  # lines cut to LINE_KEPT
    size: int = 0  # bytes of the file this block stands for


@contextmanager
def opened(source: Path | str | IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The source as an unbuffered binary stream. Raises UserError when it cannot be opened or read."""
    if not isinstance(source, (str, os.PathLike)):
        yield source
        return
    try:
        handle = open(source, "rb", buffering=0)  # noqa: SIM115 - closed below
    except OSError as error:
        raise UserError(
            f"cannot be read ({error.strerror})", where=name, remedy="check the path and its rights"
        ) from error
    with handle:
        _skip_hole(handle)
        yield handle


def _skip_hole(handle: IO[bytes]) -> None:
    """Begin behind a hole: copytruncate leaves gigabytes of nothing before a log. It holds no line's end, so
    the numbers of the lines stay right."""
    try:
        os.lseek(handle.fileno(), 0, os.SEEK_DATA)
    except (OSError, ValueError):  # no hole can be told, or nothing but a hole
        handle.seek(0)


def read_some(handle: IO[bytes], size: int, name: str) -> bytes:
    """Up to ``size`` bytes; b"" at the end. Raises UserError for an I/O error or a folder."""
    try:
        return handle.read(size) or b""
    except OSError as error:
        raise UserError(
            f"cannot be read ({error.strerror})", where=name, remedy="check the file and its storage"
        ) from error


def forward(handle: IO[bytes], name: str, head: bytes = b"") -> Iterator[Block]:
    """Blocks from the beginning; ``head`` is what was already read of the stream."""
    rest, size, dropped = head, len(head), 0
    while data := read_some(handle, BLOCK, name):
        size += len(data)
        end = data.rfind(b"\n")
        if end < 0:
            rest, lost = _append(rest, data)
            dropped += lost
            continue
        whole = _joined(rest, data[:end], dropped)
        yield Block(whole, 0, int(dropped > 0), size)
        rest, size, dropped = data[end + 1 :], 0, 0
    if rest or dropped:
        yield Block(rest.removesuffix(b"\n"), 0, int(dropped > 0), size)


def _append(rest: bytes, data: bytes) -> tuple[bytes, int]:
    """Grow an unfinished line up to LINE_KEPT; the second value is how many bytes were let go."""
    end = rest.rfind(b"\n") + 1
    room = LINE_KEPT - (len(rest) - end)
    kept = data[: max(room, 0)]
    return rest + kept, len(data) - len(kept)


def _joined(rest: bytes, data: bytes, dropped: int) -> bytes:
    """The unfinished line and what follows; of a line already cut the remainder is left out."""
    if not dropped:
        return rest + data
    end = data.find(b"\n")
    return rest if end < 0 else rest + data[end:]


@contextmanager
def seekable(handle: IO[bytes], name: str, head: bytes) -> Iterator[IO[bytes]]:
    """The whole stream again, seekable: itself when it can seek, else a temporary copy."""
    if head_is_seekable(handle):
        yield handle
        return
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_MEMORY) as copy:
        copy.write(head)
        while data := read_some(handle, BLOCK, name):
            copy.write(data)
        yield copy


def head_is_seekable(handle: IO[bytes]) -> bool:
    """True when the stream can be read from its end."""
    try:
        return bool(handle.seekable())
    except (AttributeError, OSError):
        return False


def backward(handle: IO[bytes], name: str) -> Iterator[Block]:
    """Blocks from the end towards the beginning; lines inside a block stay in file order."""
    position = handle.seek(0, os.SEEK_END)
    line = _count_lines(handle, position, name) + 1
    if position:
        handle.seek(position - 1)
        closed = handle.read(1) == b"\n"
        position, line = position - closed, line - closed
    rest, lost = b"", 0
    while position > 0:
        size = min(BLOCK, position)
        position -= size
        handle.seek(position)
        data = _read_exactly(handle, size, name) + rest
        cut = data.find(b"\n") + 1 if position else 0
        if cut == 0 and position:
            lost += max(len(data) - LINE_KEPT, 0)
            rest = data[:LINE_KEPT]
            continue
        whole, rest = data[cut:], data[: max(cut - 1, 0)]
        line -= whole.count(b"\n") + 1
        yield Block(whole, max(line, 1), 1 if lost else 0, len(whole) + lost + bool(position))
        lost = 0


def _count_lines(handle: IO[bytes], size: int, name: str) -> int:
    handle.seek(0)
    count, left = 0, size
    while left > 0:
        data = read_some(handle, min(BLOCK, left), name)
        if not data:
            break
        count += data.count(b"\n")
        left -= len(data)
    return count + 1


def _read_exactly(handle: IO[bytes], size: int, name: str) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        data = read_some(handle, size, name)
        if not data:
            break
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
