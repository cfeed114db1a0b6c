"""A llama.cpp tree of the user's own: read, copied where something changed, never written to."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analyzers.errors import UserError
from collector.lab.native.patch import Read, reader
from collector.lab.native.recipe import digest
from collector.lab.native.tree import Tree, write_changed
from collector.lab.reference.environments import Progress
from collector.lab.reference.output import printable

# A checkout of llama.cpp has 4,000 files of 180 MB; more means that models or builds lie in it.
FILES_LIMIT = 50_000
BYTES_LIMIT = 4 << 30
# Git only reads here; an index refresh of a cold checkout takes seconds.
GIT_DEADLINE = 60.0
# Without git: what is never a source, and folders cmake built in.
_SKIPPED = re.compile(r"\.git|\.venv|__pycache__|build(-.*)?|.*\.gguf")
_NUMBERED = re.compile(r"b(\d{1,6})(-.*)?")


@dataclass(frozen=True)
class OwnTree:
    """``folder`` is the user's; ``files`` are the paths in it that count, ``sha256`` is over all of them."""

    folder: Path
    files: tuple[str, ...]
    sha256: str
    label: str
    number: int
    commit: str

    @property
    def tree_name(self) -> str:
        """One work tree per folder, whatever its content: an edit then costs a minute."""
        return f"own-{digest(str(self.folder))}"

    def place(self, tree: Tree, progress: Progress, offline: bool) -> None:
        progress(f"reading {len(self.files)} files of {self.folder.name}")
        tree.source.mkdir(exist_ok=True)

    def read(self, tree: Tree) -> Read:
        return reader(self.folder, self.label)

    def put(self, tree: Tree, texts: Mapping[str, str]) -> None:
        """Copy what changed, remove what is gone, patched files as in ``texts``."""
        for name in self.files:
            content = texts[name].encode() if name in texts else (self.folder / name).read_bytes()
            path = tree.source / name
            if write_changed(path, content) and os.access(self.folder / name, os.X_OK):
                path.chmod(0o755)
        _remove_others(tree.source, set(self.files))


def own_tree(folder: Path, number: int) -> OwnTree:
    """The tree at ``folder`` as it is now. Raises UserError when it is no llama.cpp tree."""
    root = folder.resolve()
    if not (root / "tools" / "server").is_dir() or not (root / "CMakeLists.txt").is_file():
        raise UserError(
            "not a llama.cpp tree with tools/server",
            where=str(folder),
            remedy="give the folder that holds llama.cpp's CMakeLists.txt",
        )
    files = _listed(root)
    described = _git(root, "describe", "--tags", "--always", "--dirty")
    label = printable(described or root.name, 60)
    tagged = _NUMBERED.fullmatch(label)
    commit = _git(root, "rev-parse", "--short", "HEAD") or "unknown"
    sha256 = _content_hash(root, files)
    return OwnTree(root, files, sha256, label, number or (int(tagged[1]) if tagged else 0), commit)


def _listed(root: Path) -> tuple[str, ...]:
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = [name for name in listed.split("\0") if name] if listed else _walked(root)
    kept = sorted(name for name in names if _is_source(root / name))
    total = sum((root / name).stat().st_size for name in kept)
    if len(kept) > FILES_LIMIT or total > BYTES_LIMIT:
        raise UserError(
            f"{len(kept)} files of {total >> 20} MiB are more than a llama.cpp tree has",
            where=str(root),
            remedy="move models and other builds out of it, or let .gitignore name them",
        )
    return tuple(kept)


def _is_source(path: Path) -> bool:
    """A regular file, not a link: links out of the tree are not followed."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _walked(root: Path) -> list[str]:
    found: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [each for each in folders if not _SKIPPED.fullmatch(each)]
        found += [
            os.path.relpath(os.path.join(folder, each), root)
            for each in files
            if not _SKIPPED.fullmatch(each)
        ]
        if len(found) > FILES_LIMIT:
            break
    return found


def _content_hash(root: Path, files: tuple[str, ...]) -> str:
    whole = hashlib.sha256()
    for name in files:
        whole.update(name.encode("utf-8", "surrogateescape") + b"\0")
        whole.update(hashlib.sha256((root / name).read_bytes()).digest())
    return whole.hexdigest()


def _git(root: Path, *arguments: str) -> str:
    """What git says of a tree that is a repository's root; nothing when it is none, or git is missing."""
    if not (root / ".git").exists():
        return ""
    # No file system monitor: its hook would be a program of the repository's choosing.
    argv = ["git", "-C", str(root), "-c", "core.fsmonitor=false", "-c", "safe.directory=*", *arguments]
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=GIT_DEADLINE, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def _remove_others(root: Path, wanted: set[str]) -> None:
    """Bottom up, so that a folder whose last file went can go with it."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in (*files, *folders):
            path = Path(folder, name)
            if path.is_symlink() or (path.is_file() and str(path.relative_to(root)) not in wanted):
                path.unlink()
            elif path.is_dir() and not any(path.iterdir()):
                path.rmdir()
