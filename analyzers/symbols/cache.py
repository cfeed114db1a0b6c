"""The user's symbol cache: files by build-id, copies without debug information, and what was not found.

``$XDG_CACHE_HOME/llama-blackbox/symbols/BUILD-ID/{executable,debuginfo,stripped,missing}``. Only files whose
own build-id is the folder's name are put in and given out; nothing in it is ever run.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from analyzers.core.buildid import build_id_of_file
from analyzers.errors import UserError
from analyzers.symbols.elffile import is_whole
from analyzers.symbols.places import is_build_id

PROGRAM, DEBUG, STRIPPED, MISSING = "executable", "debuginfo", "stripped", "missing"
KINDS = (PROGRAM, DEBUG, STRIPPED)
MAX_BYTES = 8 << 30  # disk use, sparse files as they are stored; a CUDA build's debug file is 2 to 3 GB
MAX_BUILDS = 4096  # folders looked at when room is made
MISSING_SECONDS = 24 * 3600  # a distribution publishes debug files within a day of the program
MAX_MISSING_BYTES = 4096


def default_root() -> Path:
    """Where this user's symbol cache is. The base directory specification ignores a relative value."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    return root / "llama-blackbox" / "symbols"


class WrongBuildError(UserError):
    """What was to be stored is another build than its name says, or a part of it."""


@dataclass(frozen=True)
class Cache:
    """``root`` need not exist: reading then finds nothing, writing makes it."""

    root: Path

    def get(self, build_id: str, kind: str) -> Path | None:
        """The cached file, when it is a regular file and still is that build."""
        path = self.root / build_id / kind
        if not is_build_id(build_id) or not _regular(path):
            return None
        try:
            return path if build_id_of_file(path) == build_id else None
        except UserError:
            return None

    def put(self, build_id: str, kind: str, write: Callable[[BinaryIO], None]) -> Path:
        """Let ``write`` fill a private file, check its build-id, and rename it into place once on disk.

        Raises UserError when what was written is another build, or cannot be stored.
        """
        if not is_build_id(build_id) or kind not in KINDS:
            raise UserError("not a build-id", where=build_id[:80], remedy="give its 40 hexadecimal digits")
        try:
            folder = self._folder(build_id)
            descriptor, draft = tempfile.mkstemp(prefix=".part-", dir=folder)
            with os.fdopen(descriptor, "wb") as out:
                return self._published(Path(draft), out, folder / kind, build_id, write)
        except OSError as error:
            raise _not_stored(self.root, error) from error

    def _published(
        self, draft: Path, out: BinaryIO, target: Path, build_id: str, write: Callable[[BinaryIO], None]
    ) -> Path:
        try:
            write(out)
            out.flush()
            os.fsync(out.fileno())
            found = build_id_of_file(draft)
            if found != build_id:
                raise WrongBuildError(
                    f"is build {found or 'without a build-id'}, not the one wanted",
                    where=build_id,
                    remedy="nothing was stored; ask another source",
                )
            if not is_whole(draft):
                raise WrongBuildError("is cut", where=build_id, remedy="nothing was stored; ask again")
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        self._make_room(target.parent)
        return target

    def _folder(self, build_id: str) -> Path:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.root / build_id
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise OSError(20, "a link stands where a folder belongs")
        return folder

    def _make_room(self, newest: Path) -> None:
        """Remove the builds used longest ago until the rest fits."""
        builds = [entry for entry in list(os.scandir(self.root))[:MAX_BUILDS] if is_build_id(entry.name)]
        sizes = {entry.path: _stored(Path(entry.path)) for entry in builds}
        oldest = sorted(builds, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
        for entry in oldest:
            if sum(sizes.values()) <= MAX_BYTES or entry.path == os.fspath(newest):
                return
            del sizes[entry.path]
            for name in (*KINDS, MISSING):
                with contextlib.suppress(OSError):
                    (Path(entry.path) / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                Path(entry.path).rmdir()

    def note_missing(self, build_id: str, kind: str, source: str) -> None:
        """Remember that ``source`` does not have it, so that it is not asked again for a day."""
        if not is_build_id(build_id):
            return
        with contextlib.suppress(OSError):
            rows = {**self._missing(build_id), f"{kind} {source}": time.time()}
            folder = self._folder(build_id)
            with tempfile.NamedTemporaryFile("w", prefix=".part-", dir=folder, delete=False) as draft:
                json.dump(rows, draft)
            os.replace(draft.name, folder / MISSING)

    def known_missing(self, build_id: str, kind: str, source: str) -> bool:
        """``source`` was asked within the last day and did not have it."""
        noted = self._missing(build_id).get(f"{kind} {source}", 0.0)
        return 0 <= time.time() - noted < MISSING_SECONDS

    def _missing(self, build_id: str) -> dict[str, float]:
        path = self.root / build_id / MISSING
        try:
            if not is_build_id(build_id) or not _regular(path) or path.stat().st_size > MAX_MISSING_BYTES:
                return {}
            rows = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        items = rows.items() if isinstance(rows, dict) else ()
        return {str(key): float(at) for key, at in items if isinstance(at, int | float)}


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _stored(folder: Path) -> int:
    try:
        return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in os.scandir(folder))
    except OSError:
        return 0


def _not_stored(root: Path, error: OSError) -> UserError:
    reason = (error.strerror or "error").lower()
    remedy = "free some space, or set XDG_CACHE_HOME to a folder you may write to"
    return UserError(f"the symbol cache cannot be written ({reason})", where=str(root), remedy=remedy)
