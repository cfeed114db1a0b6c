"""Unpacks an archive into a private folder and refuses everything a bundle never holds."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from analyzers.bundle import limits
from analyzers.bundle.errors import corrupt, os_error, refused
from analyzers.bundle.names import fault_of, plain
from analyzers.bundle.pack import make_folders
from analyzers.bundle.stream import Bounded, open_archive

_BLOCK = tarfile.BLOCKSIZE
_FILES = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE})
_LONG_NAME = tarfile.GNUTYPE_LONGNAME
_PAX = frozenset({tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE})
_WORDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
}


@dataclass(frozen=True)
class Member:
    """One file that was unpacked: its name in the archive, its size in bytes and its hash."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class _Header:
    name: str
    size: int
    type: bytes


@dataclass
class _Seen:
    """Names met so far, so that nothing is written twice or through a file."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)


def unpack(archive: Path, target: Path) -> list[Member]:
    """Write the archive's files below ``target``, an empty folder, and nowhere else. Raises UserError."""
    members: list[Member] = []
    seen = _Seen()
    with open_archive(archive) as stream:
        for header in _headers(stream, str(archive)):
            if header.type == tarfile.DIRTYPE:
                _admit_folder(header, str(archive))
                continue
            _admit(header, seen, str(archive))
            members.append(_write(stream, header, target, str(archive)))
    if not members:
        raise corrupt("no file in it; it is empty or no bundle", str(archive))
    return members


def _headers(stream: Bounded, where: str) -> Iterator[_Header]:
    """The archive's files and folders. A file's content must be read before the next one is asked for."""
    long_name: str | None = None
    for _ in range(limits.MAX_HEADERS):
        block = stream.read(_BLOCK)
        if not block or block == bytes(_BLOCK):
            return
        header = _parse(block, where)
        if header.type in _PAX or header.type == _LONG_NAME:
            long_name = _extension(stream, header, where) or long_name
        elif header.type == tarfile.XGLTYPE:
            _extension(stream, header, where)
        else:
            yield replace(header, name=plain(long_name or header.name))
            long_name = None
    raise refused("it holds too many entries", where)


def _parse(block: bytes, where: str) -> _Header:
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise corrupt(
            "neither a folder nor an archive (tar, tar.gz, tar.zst) that can be read", where
        ) from error
    if info.size < 0:
        raise refused("an entry has a negative size", where)
    return _Header(info.name, info.size, info.type)


def _extension(stream: Bounded, header: _Header, where: str) -> str | None:
    """The name an extension header gives to the entry that follows it."""
    if header.size > limits.MAX_HEADER:
        raise refused("an entry's header is too large", where)
    data = stream.exactly(header.size)
    stream.exactly(-header.size % _BLOCK)
    if header.type == _LONG_NAME:
        return data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    return _pax_path(data, where)


def _pax_path(data: bytes, where: str) -> str | None:
    """The ``path`` record of a pax header; records that change how much follows are refused."""
    path = None
    while data:
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or len(length) > 6 or not 5 <= int(length) <= len(data):
            raise corrupt("an entry's header is damaged", where)
        key, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"size" or key.startswith(b"GNU.sparse"):
            raise refused("an entry has a form that bundles never use", where)
        path = value.decode("utf-8", "surrogateescape") if key == b"path" else path
        data = data[int(length) :]
    return path


def _admit_folder(header: _Header, where: str) -> None:
    """Folders are made as files need them; one with an unfit name still gives a hostile archive away."""
    fault = fault_of(header.name) if header.name not in ("", ".") else None
    if fault:
        raise refused(f"the name {header.name[:80]!r} {fault}", where)


def _admit(header: _Header, seen: _Seen, where: str) -> None:
    """Raises UserError unless the entry is a file with a fit name that was not there before."""
    if header.type not in _FILES:
        raise refused(f"{header.name[:80]!r} is {_WORDS.get(header.type, 'of an unknown type')}", where)
    if fault := fault_of(header.name):
        raise refused(f"the name {header.name[:80]!r} {fault}", where)
    folders = {header.name[:at] for at, char in enumerate(header.name) if char == "/"}
    if header.name in seen.files | seen.folders or not folders.isdisjoint(seen.files):
        raise refused(f"the name {header.name[:80]!r} is there twice", where)
    seen.files.add(header.name)
    seen.folders |= folders
    if len(seen.files) > limits.MAX_FILES:
        raise refused(f"it holds more than {limits.MAX_FILES} files", where)
    if header.size > limits.MAX_TOTAL:
        raise refused(f"it unpacks to more than {limits.MAX_TOTAL // limits.GIB} GiB", where)


def _write(stream: Bounded, header: _Header, target: Path, where: str) -> Member:
    digest = hashlib.sha256()
    try:
        path = make_folders(target, header.name)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for size in _chunks(header.size):
                data = stream.exactly(size)
                digest.update(data)
                file.write(data)
    except OSError as error:
        raise os_error(error, f"{where} (unpacking to {target.parent})") from error
    stream.exactly(-header.size % _BLOCK)
    return Member(header.name, header.size, digest.hexdigest())


def _chunks(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, limits.CHUNK)
        size -= limits.CHUNK
