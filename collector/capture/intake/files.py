"""Cores in folders that are named: container layers and volumes, apport's reports, a rescued disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from analyzers.core.elf import MAGIC
from analyzers.core.packed import FORMATS
from analyzers.errors import UserError
from analyzers.triage.readers.store import named_in_store
from collector.capture.intake.found import APPORT, FILE, Found, identity_of
from collector.gather.corefiles import apport_fields
from collector.gather.slim import REPORT_SUFFIX

MOST_ENTRIES = 200_000  # of one walk: an image layer of a distribution with Python holds 50,000
MOST_DEPTH = 24
MOST_CORES = 256
_SMALLEST = 4096
_CORE_WORDS = ("core", ".dmp", ".crash")


def in_files(path: Path) -> Iterator[Found]:
    """The core or report at ``path``, or those in the folder there. Links and special files are left out.

    Raises UserError where nothing can be looked at.
    """
    try:
        found = os.lstat(path)
    except OSError as problem:
        raise UserError(
            (problem.strerror or "error").lower(), where=str(path), remedy="name a core or a folder"
        ) from None
    if stat.S_ISREG(found.st_mode):
        yield of_file(path, found)
    elif stat.S_ISDIR(found.st_mode):
        yield from _below(path)
    else:
        raise UserError("a link or no plain file", where=str(path), remedy="name the core itself")


def of_file(path: Path, found: os.stat_result, origin: str = FILE) -> Found:
    """What the file's place tells of it."""
    if path.suffix == REPORT_SUFFIX:
        return _of_report(path, found)
    named = named_in_store(path.name)
    pid = named.pid if named is not None else None
    notes = (f"owned by user {found.st_uid}",)
    return Found(origin, path, found.st_mtime, pid=pid, identity=identity_of(found), notes=notes)


def _of_report(path: Path, found: os.stat_result) -> Found:
    fields = apport_fields(path)
    signal = fields.get("Signal", "")
    return Found(
        APPORT,
        path,
        found.st_mtime,
        signal=int(signal) if signal.isdecimal() and len(signal) < 3 else None,
        exe=fields.get("ExecutablePath"),
        notes=(f"a report of user {found.st_uid}, who can have written anything into it",),
    )


def _below(top: Path) -> Iterator[Found]:
    seen = cores = 0
    for at, folders, files, descriptor in os.fwalk(top, follow_symlinks=False):
        if len(PurePosixPath(at).parts) - len(top.parts) >= MOST_DEPTH:
            folders.clear()
        folders[:] = [name for name in folders if name not in ("proc", "sys", "dev")]
        for name in files:
            seen += 1
            found = _core_stat(descriptor, name)
            if found is not None:
                cores += 1
                yield of_file(Path(at) / name, found)
            if seen >= MOST_ENTRIES or cores >= MOST_CORES:
                return


def _core_stat(folder: int, name: str) -> os.stat_result | None:
    """Of a plain file that begins as a core, packed or not; a packed one's name must say core as well."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or found.st_size < _SMALLEST:
            return None
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        head = os.read(descriptor, 18)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    plain = head.startswith(MAGIC) and head[16:18] == b"\x04\x00"
    named = any(word in name for word in _CORE_WORDS)
    packed = named and (head.startswith(tuple(FORMATS)) or name.endswith(REPORT_SUFFIX))
    return found if plain or packed else None
