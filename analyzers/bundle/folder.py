"""A bundle that is a folder: read where it is, without following links."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from analyzers.bundle import limits
from analyzers.bundle.errors import corrupt, os_error, refused
from analyzers.bundle.names import fault_of
from analyzers.bundle.unpack import Member
from analyzers.contracts.bundle import EVIDENCE_NAME, MANIFEST_NAME
from analyzers.contracts.report import Gap


def list_folder(root: Path, check_hashes: bool) -> tuple[list[Member], list[Gap]]:
    """The regular files below ``root``, and a gap for each thing that is none. Raises UserError."""
    members: list[Member] = []
    gaps: list[Gap] = []
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        member = _member(path, name, check_hashes or name in (MANIFEST_NAME, EVIDENCE_NAME))
        if isinstance(member, Gap):
            gaps.append(member)
        else:
            members.append(member)
        if len(members) + len(gaps) > limits.MAX_FILES:
            raise refused(f"it holds more than {limits.MAX_FILES} files", str(root))
    return members, gaps


def _walk(root: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise os_error(error, str(root)) from error

    for folder, folders, files in os.walk(root, onerror=fail):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*files, *links]):
            yield Path(folder, name)


def _member(path: Path, name: str, hashed: bool) -> Member | Gap:
    if fault := fault_of(name):
        return Gap(what=repr(name), why=f"left out: the name {fault}")
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return Member(name, size, _digest(file) if hashed else "")
    except OSError as error:
        return Gap(what=name, why=f"left out: {_reason(error)}")


def _reason(error: OSError) -> str:
    return (os.strerror(error.errno).lower() if error.errno else "") or str(error)


def open_regular(path: Path) -> BinaryIO:
    """``path`` for reading. Raises OSError for links, devices and everything else that is no regular file."""
    # Without O_NONBLOCK opening a named pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path.name} is no regular file")
    return os.fdopen(descriptor, "rb")


def read_bounded(path: Path, limit: int, where: str) -> bytes:
    """The whole of a small file. Raises UserError when it cannot be read or is over ``limit`` bytes."""
    try:
        with open_regular(path) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise os_error(error, where) from error
    if len(data) > limit:
        raise corrupt(f"it is over {limit // limits.MIB} MiB", where)
    return data


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while data := file.read(limits.CHUNK):
        digest.update(data)
    return digest.hexdigest()
