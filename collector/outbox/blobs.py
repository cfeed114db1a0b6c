"""Attachments as files named by their content: whole and synced before a row names them."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from analyzers.bundle.folder import open_regular
from analyzers.contracts.outbox import ATTACHMENTS, KEPT, fit_name
from collector.outbox.folder import sync
from collector.outbox.limits import CHUNK, MAX_ATTACHMENT
from collector.outbox.write import NewAttachment

PART = ".part-"
_numbers = itertools.count()


class UnfitError(Exception):
    """This attachment cannot be taken, now or later; the message names the counter."""


@dataclass(frozen=True)
class Staged:
    """An attachment whose file is on the disk."""

    new: NewAttachment
    size: int
    sha256: str


def stage(folder: Path, new: NewAttachment) -> Staged:
    """Write and sync the file. Raises UnfitError, and OSError when the disk does not take it."""
    if not fit_name(new.name):
        raise UnfitError("unfit_attachments")
    place = folder / ATTACHMENTS
    part = place / f"{PART}{os.getpid()}-{next(_numbers)}"
    try:
        source = io.BytesIO(new.data) if isinstance(new.data, bytes) else open_regular(new.data)
    except OSError as error:
        raise UnfitError("unreadable_attachments") from error
    try:
        with source:
            size, digest = _copy(source, part)
        os.rename(part, place / digest)
        sync(place)
    finally:
        part.unlink(missing_ok=True)
    return Staged(new, size, digest)


def _copy(source: BinaryIO, part: Path) -> tuple[int, str]:
    hashed, size = hashlib.sha256(), 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(part, flags, 0o600), "wb") as target:
        while data := source.read(CHUNK):
            size += len(data)
            if size > MAX_ATTACHMENT:
                raise UnfitError("oversized_attachments")
            hashed.update(data)
            target.write(data)
        target.flush()
        os.fsync(target.fileno())
    return size, hashed.hexdigest()


def sweep(folder: Path, database: sqlite3.Connection) -> None:
    """Remove what a kill left: half files, and files that no row names. Never raises for the disk."""
    rows = database.execute("SELECT DISTINCT sha256 FROM attachments WHERE state = ?", (KEPT,)).fetchall()
    named = {row[0] for row in rows}
    try:
        found = [path for path in (folder / ATTACHMENTS).iterdir() if path.name not in named]
    except OSError:
        return
    for path in found:
        _remove(path)


def remove_unnamed(folder: Path, database: sqlite3.Connection, digests: Iterable[str]) -> None:
    """Remove the files of ``digests`` that no row names any more."""
    question = "SELECT 1 FROM attachments WHERE sha256 = ? AND state = ? LIMIT 1"
    for digest in set(digests):
        if database.execute(question, (digest, KEPT)).fetchone() is None:
            _remove(folder / ATTACHMENTS / digest)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # a folder somebody put there; swept again at the next start
