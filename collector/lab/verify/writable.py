"""Tells before minutes of trials, not after, whether a file or a folder could be made."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from analyzers.errors import UserError

PROBE = ".llama-blackbox."
REMEDY = "name a file in a writable folder"


def demand_file(path: Path, remedy: str = REMEDY) -> None:
    """Raises UserError unless ``path`` could be written: its folder is there, and so may a plain file be."""
    try:
        demand_plain(path)
        probe(path.parent)
    except OSError as error:
        raise unwritable(path, f"cannot be written ({reason(error)})", remedy) from None


def demand_room(folder: Path, remedy: str) -> None:
    """Raises UserError unless ``folder`` may be written to, or could be made with those above it."""
    try:
        with suppress(FileNotFoundError):
            folder.lstat()  # a name too long, or a file where a folder should be
        wanted = folder.absolute()
        probe(next(each for each in (wanted, *wanted.parents) if os.path.lexists(each)))
    except OSError as error:
        raise unwritable(folder, f"cannot be written ({reason(error)})", remedy) from None


def demand_plain(path: Path) -> None:
    """Raises UserError when ``path`` is there and is a link or no regular file, OSError when it cannot be."""
    with suppress(FileNotFoundError):
        path.lstat()
        if path.is_symlink() or not path.is_file():
            raise unwritable(path, "this is a link, or no regular file")


def probe(folder: Path) -> None:
    """Make a file in ``folder`` and take it away: a right that is written down is not always one that holds
    (a read-only disk, a full one, /proc). Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=PROBE, dir=folder)
    os.close(descriptor)
    os.unlink(name)


def reason(error: OSError) -> str:
    return (error.strerror or "error").lower()


def unwritable(path: Path, why: str, remedy: str = REMEDY) -> UserError:
    return UserError(why, where=str(path), remedy=remedy)
