"""A bounded byte stream over a compressed or plain archive: no more output than the limits allow."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from analyzers.bundle import limits
from analyzers.bundle.errors import corrupt, os_error, refused

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"


class Readable(Protocol):
    """What is asked of a decompressor."""

    def read(self, size: int, /) -> bytes: ...


class Bounded:
    """Reads from ``source`` and refuses to go on past the limits. ``where`` names the archive in errors."""

    def __init__(self, source: Readable, raw: BinaryIO, where: str) -> None:
        self._source, self._raw, self._where, self._out = source, raw, where, 0

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the end. Raises UserError for a corrupt or hostile archive."""
        parts: list[bytes] = []
        while size > 0 and (part := self._some(min(size, limits.CHUNK))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def exactly(self, size: int) -> bytes:
        """``size`` bytes. Raises UserError when the archive ends before."""
        data = self.read(size)
        if len(data) < size:
            raise corrupt("the archive is cut", self._where)
        return data

    def _some(self, size: int) -> bytes:
        try:
            data = self._source.read(size)
        except (zstandard.ZstdError, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise self._broken(error) from error
        except OSError as error:
            raise os_error(error, self._where) from error
        self._out += len(data)
        self._check()
        return data

    def _broken(self, error: Exception) -> Exception:
        if "memory" in str(error).lower() or "window" in str(error).lower():
            return refused("it asks for more memory to unpack than any honest bundle", self._where)
        return corrupt(f"the archive is damaged ({error})", self._where)

    def _check(self) -> None:
        if self._out > limits.MAX_TOTAL:
            raise refused(f"it unpacks to more than {limits.MAX_TOTAL // limits.GIB} GiB", self._where)
        if self._out > limits.RATIO_FROM and self._out > limits.MAX_RATIO * max(1, self._raw.tell()):
            raise refused(f"it unpacks to over {limits.MAX_RATIO} times its size", self._where)


@contextmanager
def open_archive(path: Path) -> Iterator[Bounded]:
    """The tar stream inside ``path`` (.tar.zst, .tar.gz or .tar, told by content). Raises UserError."""
    where = str(path)
    try:
        raw = _open(path)
    except OSError as error:
        raise os_error(error, where) from error
    with raw:
        magic = raw.read(4)
        raw.seek(0)
        yield Bounded(_source(raw, magic), raw, where)


def _open(path: Path) -> BinaryIO:
    if path.exists() and not path.is_file():
        raise corrupt(
            "it is neither a file nor a folder", str(path)
        )  # opening a named pipe would wait for ever
    return path.open("rb")


def _source(raw: BinaryIO, magic: bytes) -> Readable:
    if magic == ZSTD_MAGIC:
        decompressor = zstandard.ZstdDecompressor(max_window_size=limits.MAX_WINDOW)
        return decompressor.stream_reader(raw, read_across_frames=True, closefd=False)
    if magic[:2] == GZIP_MAGIC:
        return gzip.GzipFile(fileobj=raw)
    return raw
