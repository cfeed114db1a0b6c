"""The user's cache folder: where generated models and server environments are kept, by content."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analyzers.errors import UserError

APPLICATION = "llama-blackbox"


def cache_path(*parts: str) -> Path:
    """``$XDG_CACHE_HOME/llama-blackbox/PARTS`` (``~/.cache`` when unset), whether it is there or not."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The base directory specification says a relative value must be ignored.
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root.joinpath(APPLICATION, *parts)


def cache_entries(*parts: str) -> list[Path]:
    """What stands in that folder of the cache, in order; nothing when it is not there. Nothing is made."""
    folder = cache_path(*parts)
    return sorted(folder.iterdir()) if folder.is_dir() else []


def cache_folder(*parts: str) -> Path:
    """``cache_path``, made when missing. Raises UserError when the folder cannot be made."""
    folder = cache_path(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the cache folder cannot be made ({error.strerror})",
            where=str(folder),
            remedy="free some space, or set XDG_CACHE_HOME to a folder you may write to",
        ) from None
    return folder


def publish(target: Path, write: Callable[[Path], None]) -> Path:
    """Let ``write`` fill a private file beside ``target`` and rename it into place once it is on disk.

    A reader sees the old file, or the whole new one, and never a part of it.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(descriptor)
    draft = Path(name)
    try:
        write(draft)
        _to_disk(draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target


@contextmanager
def drafted(target: Path) -> Iterator[Path]:
    """A private folder to fill, which takes ``target``'s place when that went well, and goes when it did not.

    The caller holds a lock on ``target``: drafts of makers that were killed are taken away first.
    """
    for leftover in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield draft
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def exclusive(lock: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold ``lock`` against every other process; ``waiting`` is called once when another one has it.

    The kernel drops the lock with the process that holds it, so a killed builder never blocks the next.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(lock, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
