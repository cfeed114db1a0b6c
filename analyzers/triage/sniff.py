"""What kind of thing an input is, from its first bytes; names and suffixes are never trusted."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import zstandard

from analyzers.errors import UserError
from analyzers.logs import looks
from analyzers.triage.traces import looks_like_trace

HEAD = 64 << 10
ELF = b"\x7fELF"
ET_CORE = 4
TAR_MAGIC_AT = 257
MANIFEST = "manifest.json"


def sniff(path: Path) -> str:
    """One of: core, bundle, journal-export, journal-json, kernel-log, server-log, stack-trace.

    Raises UserError for what cannot be read or is none of these.
    """
    try:
        if path.is_dir():
            return _folder(path)
        with path.open("rb") as file:
            raw = file.read(HEAD)
    except OSError as error:
        raise UserError(
            f"cannot be read ({error.strerror})", where=str(path), remedy="check the path and its rights"
        ) from None
    except ValueError:
        raise UserError("is not a usable path", where=repr(str(path)), remedy="check the path") from None
    if not raw:
        raise UserError("the file is empty", where=str(path), remedy="give the file that holds the evidence")
    return _by_bytes(path, raw)


def _folder(path: Path) -> str:
    try:
        if (path / MANIFEST).is_file():
            return "bundle"
        next(path.iterdir(), None)
    except PermissionError:
        raise UserError(
            "the folder cannot be read (permission denied)",
            where=str(path),
            remedy="run as a user who may read it",
        ) from None
    raise UserError(
        f"is a folder and no bundle (it has no {MANIFEST})", where=str(path), remedy="name the files in it"
    )


def _by_bytes(path: Path, raw: bytes) -> str:
    head = unpacked_head(path, raw)
    packed = head is not raw
    if head[:4] == ELF:
        return "core"  # the core reader says what kind of ELF it really is
    if head[TAR_MAGIC_AT : TAR_MAGIC_AT + 5] == b"ustar":
        return "bundle"
    if packed:
        raise UserError(
            "is compressed, but holds neither a core nor a bundle",
            where=str(path),
            remedy="decompress it and give the text",
        )
    return _text_kind(head)


def _text_kind(head: bytes) -> str:
    tests: tuple[tuple[Callable[[bytes], bool], str], ...] = (
        (looks.looks_like_export, "journal-export"),
        (looks.looks_like_json, "journal-json"),
        (looks.looks_like_log, "server-log"),
        (looks.looks_like_kernel, "kernel-log"),
        (looks_like_trace, "stack-trace"),
    )
    return next((kind for test, kind in tests if test(head)), "server-log")


def unpacked_head(path: Path, raw: bytes) -> bytes:
    """The first bytes after one layer of zstd, gzip, xz or bzip2; ``raw`` itself when it is not packed."""
    opener = next((make for magic, make in _PACKERS.items() if raw.startswith(magic)), None)
    if opener is None:
        return raw
    try:
        with path.open("rb") as file:
            return opener(file).read(HEAD)
    except (OSError, EOFError, ValueError, zstandard.ZstdError):
        raise UserError(
            "the compressed data is damaged", where=str(path), remedy="copy or fetch it again"
        ) from None


def _zstd(file: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file))


def _gzip(file: IO[bytes]) -> IO[bytes]:
    import gzip

    return cast("IO[bytes]", gzip.open(file))


def _xz(file: IO[bytes]) -> IO[bytes]:
    import lzma

    return lzma.open(file)


def _bzip2(file: IO[bytes]) -> IO[bytes]:
    import bz2

    return bz2.open(file)


_PACKERS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x28\xb5\x2f\xfd": _zstd,
    b"\x1f\x8b": _gzip,
    b"\xfd7zXZ\x00": _xz,
    b"BZh": _bzip2,
}
