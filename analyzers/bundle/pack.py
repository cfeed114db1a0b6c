"""One archive from a finished folder: the same folder always gives the same bytes."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import zstandard

LEVEL = 3  # zstd's own default: higher levels take many times as long for a few per cent of a log
_RECORD = tarfile.RECORDSIZE


def pack(root: Path, archive: Path, names: Sequence[str], created: float) -> None:
    """Write ``names`` below ``root``, in that order, into a ``.tar.zst`` on the disk. Raises OSError."""
    descriptor = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        with (
            compressor.stream_writer(file, closefd=False) as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_RECORD) as tar,
        ):
            for name in names:
                _add(tar, root / name, name, int(created))
        file.flush()
        os.fsync(file.fileno())


def _add(tar: tarfile.TarFile, path: Path, name: str, created: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = path.stat().st_size, 0o600, max(0, created)
    with path.open("rb") as content:
        tar.addfile(info, content)


def make_folders(root: Path, name: str) -> Path:
    """The path of ``name`` below ``root``, its folders made for their owner alone."""
    path = root / name
    for folder in reversed(path.relative_to(root).parents[:-1]):
        (root / folder).mkdir(mode=0o700, exist_ok=True)
    return path


def sync_folder(path: Path) -> None:
    """Make the names in ``path`` durable. File systems that cannot sync a folder need no more than this."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
