"""``opened``: a core or a text that may be packed, as a plain file.

systemd-coredump stores cores as .zst, .xz or .lz4; people send them as .gz or .bz2, and rotated logs are
packed likewise. The format is told by the first bytes, never by the name. Output is written sparse to a
private temporary file and removed after. lz4 needs a package of its own; a triage without it says so.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from analyzers.core.elf import MAGIC as ELF_MAGIC
from analyzers.core.files import opened_regular, plain, pread
from analyzers.errors import UserError

# The unpackers are imported where one is used: together they cost 15 ms, and most cores come unpacked.
if TYPE_CHECKING:
    import bz2
    import gzip
    from tempfile import _TemporaryFileWrapper

BLOCK = 1 << 20  # bytes unpacked at a time; the memory this needs
HOLE = 64 << 10  # bytes; a piece of zeros is not written: stacks and arenas are mostly zero
MAX_UNPACKED = 32 << 30  # bytes; systemd-coredump's own ProcessSizeMax default
MAX_RATIO = 500  # written (non-zero) bytes per packed byte; a core of 179 MB measured 13 with zstd -1
RATIO_FLOOR = 64 << 20  # below this no ratio is harmful
MAX_WINDOW = 128 << 20  # bytes of memory a packed file may ask for; covers every level without --long
MAGIC_BYTES = 6
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Limits:
    """Bounds against bombs: total bytes, and written bytes per packed byte above a floor."""

    unpacked: int = MAX_UNPACKED
    ratio: int = MAX_RATIO
    ratio_floor: int = RATIO_FLOOR


DEFAULT_LIMITS = Limits()


class Stepwise(Protocol):
    """lzma's and lz4's decompressors."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Streams:
    """Streams that follow each other in one file, unpacked step by step; what came before a cut counts."""

    def __init__(self, source: BinaryIO, fresh: Callable[[], Stepwise]) -> None:
        self._source = source
        self._fresh = fresh
        self._stream = fresh()

    def read(self, size: int, /) -> bytes:
        while True:
            if self._stream.eof and not self._next_stream():
                return b""
            fed = self._source.read(BLOCK) if self._stream.needs_input else b""
            if self._stream.needs_input and not fed:
                raise EOFError("the stream ends early")
            data = self._stream.decompress(fed, size)
            if data:
                return data

    def _next_stream(self) -> bool:
        rest = (self._stream.unused_data or self._source.read(BLOCK)).lstrip(b"\0")
        if not rest:
            return False
        self._source.seek(-len(rest), os.SEEK_CUR)
        self._stream = self._fresh()
        return True


def _xz(source: BinaryIO) -> Reader:
    """Like lzma.open, with a bound on the memory that the file's dictionary may take."""
    import lzma

    return _Streams(source, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW))


def _lz4(source: BinaryIO) -> Reader:
    """The frame format. Raises UserError when the package lz4 is not installed."""
    try:
        import lz4.frame
    except ImportError:
        raise UserError(
            "packed with lz4, and the Python package lz4 is not installed",
            where=plain(str(getattr(source, "name", "input"))),
            remedy=f"run: {LZ4_INSTALL}; or {LZ4_REMEDY}",
        ) from None
    return _Streams(source, lz4.frame.LZ4FrameDecompressor)


class _Piecewise:
    """Reads what is ready: a full read that meets the end of a cut file throws away what it had."""

    def __init__(self, stream: gzip.GzipFile | bz2.BZ2File) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        return self._stream.read1(size)


def _zstd(source: BinaryIO) -> Reader:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    return unpacker.stream_reader(source, read_across_frames=True)


def _gzip(source: BinaryIO) -> Reader:
    import gzip

    return _Piecewise(gzip.GzipFile(fileobj=source))


def _bzip2(source: BinaryIO) -> Reader:
    import bz2

    return _Piecewise(bz2.BZ2File(source))


FORMATS: dict[bytes, tuple[str, Callable[[BinaryIO], Reader]]] = {
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"\x1f\x8b": ("gzip", _gzip),
    b"\xfd7zXZ\0": ("xz", _xz),
    b"BZh": ("bzip2", _bzip2),
    b"\x04\x22\x4d\x18": ("lz4", _lz4),
}
LZ4_LEGACY = b"\x02\x21\x4c\x18"  # the kernel's format; systemd and people use frames
LZ4_INSTALL = "pip install 'llama-blackbox[lz4]'"
LZ4_REMEDY = "unpack it with `lz4 -d FILE core` (package lz4) and give the result"


@lru_cache(maxsize=1)
def damage() -> tuple[type[Exception], ...]:
    """What the unpackers raise on data that is cut, damaged or wants too much memory."""
    import lzma
    import zlib

    import zstandard

    # lz4 raises RuntimeError for damage
    return EOFError, OSError, ValueError, RuntimeError, zlib.error, lzma.LZMAError, zstandard.ZstdError


@dataclass(frozen=True)
class _Job:
    """One packed file: its name for error lines, its format, its size in bytes and the bounds."""

    where: str
    kind: str
    packed: int
    limits: Limits
    magic: bytes = ELF_MAGIC


def is_packed(path: Path) -> bool:
    """True when ``path`` is a regular file in one of FORMATS. Raises UserError when it cannot be opened."""
    with opened_regular(path) as descriptor:
        return pread(descriptor, MAGIC_BYTES, 0).startswith(tuple(FORMATS))


@contextmanager
def opened(
    path: Path, folder: Path | None = None, limits: Limits = DEFAULT_LIMITS, magic: bytes = ELF_MAGIC
) -> Iterator[Path]:
    """A context that yields the core itself, or its unpacked copy in ``folder`` (default: TMPDIR or /tmp).

    The copy has mode 0600 and is gone when the context ends. A packed file that ends early yields what it
    holds; the reader then says that the core is cut. ``magic``: what the content must begin with, b"" for
    a text.
    Raises UserError on entering: unreadable, lz4 without its package, damaged, something else inside, over a
    limit, disk full.
    """
    where = plain(str(path))
    with opened_regular(path) as descriptor:
        start = pread(descriptor, MAGIC_BYTES, 0)
        if start.startswith(LZ4_LEGACY):
            raise UserError("packed with lz4 in its legacy format", where=where, remedy=LZ4_REMEDY)
        found = next((row for key, row in FORMATS.items() if start.startswith(key)), None)
        if found is None:
            yield path
            return
        kind, maker = found
        with os.fdopen(os.dup(descriptor), "rb") as source, _temporary(where, folder) as target:
            job = _Job(where, kind, os.fstat(descriptor).st_size, limits, magic)
            source.seek(0)
            _unpack(job, _made(job, maker, source), target.fileno())
            yield Path(target.name)


def _made(job: _Job, maker: Callable[[BinaryIO], Reader], source: BinaryIO) -> Reader:
    try:
        return maker(source)
    except UserError as problem:  # a package is missing: the name that the user gave belongs there
        raise UserError(problem.what, where=job.where, remedy=problem.remedy) from None


def _temporary(where: str, folder: Path | None) -> _TemporaryFileWrapper[bytes]:
    from tempfile import NamedTemporaryFile

    try:
        return NamedTemporaryFile(prefix="llama-blackbox-", suffix=".core", dir=folder)
    except OSError as error:
        raise _not_written(where, error) from error


def _unpack(job: _Job, reader: Reader, target: int) -> None:
    total = written = 0
    while block := _next_block(job, reader):
        if total == 0 and not block.startswith(job.magic):
            raise UserError(f"{job.kind} data, but no core inside", where=job.where, remedy="give a core")
        written += _write(job, target, block, total)
        total += len(block)
        _check(job, total, written)
    if total == 0:
        raise UserError(f"{job.kind} data that ends at once", where=job.where, remedy="copy the file again")
    os.ftruncate(target, total)


def _next_block(job: _Job, reader: Reader) -> bytes:
    try:
        return reader.read(BLOCK)
    except EOFError:  # cut: what came before it still counts
        return b""
    except damage() as error:
        raise UserError(
            f"{job.kind} data is damaged, or wants over {MAX_WINDOW >> 20} MB to unpack",
            where=job.where,
            remedy=f"copy the file again and test it with `{job.kind} -t`",
        ) from error


def _write(job: _Job, target: int, block: bytes, at: int) -> int:
    """Write the pieces of ``block`` that are not zero; the number of bytes written."""
    written = 0
    for start in range(0, len(block), HOLE):
        piece = block[start : start + HOLE]
        if piece.count(0) < len(piece):
            _write_all(job, target, piece, at + start)
            written += len(piece)
    return written


def _write_all(job: _Job, target: int, piece: bytes, at: int) -> None:
    try:
        while piece:
            done = os.pwrite(target, piece, at)
            piece, at = piece[done:], at + done
    except OSError as error:
        raise _not_written(job.where, error) from error


def _check(job: _Job, total: int, written: int) -> None:
    limits = job.limits
    if total > limits.unpacked:
        raise UserError(
            f"unpacks to more than {limits.unpacked} bytes",
            where=job.where,
            remedy="unpack it yourself and give the result",
        )
    if written > limits.ratio_floor and written > limits.ratio * job.packed:
        raise UserError(
            f"unpacks to more than {limits.ratio} times its size, as no core does",
            where=job.where,
            remedy="unpack it yourself if you trust it and give the result",
        )


def _not_written(where: str, error: OSError) -> UserError:
    if error.errno in DISK_FULL:
        return UserError(
            "no room to unpack it", where=where, remedy="free space or set TMPDIR to a folder with room"
        )
    reason = (error.strerror or "error").lower()
    return UserError(
        f"cannot be unpacked ({reason})", where=where, remedy="set TMPDIR to a folder that can be written"
    )
