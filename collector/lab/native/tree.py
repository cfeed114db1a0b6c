"""Work trees: one per source and flavour, kept, so that a build after a patch compiles only what changed.

A tree holds ``llama.cpp`` and ``build`` side by side: with CCACHE_BASEDIR at the tree, a compiler cache is
shared by all trees.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from collector.lab.reference.cache import cache_folder, exclusive
from collector.lab.reference.environments import Progress

FILLED = "filled.json"


@dataclass(frozen=True)
class Tree:
    """``home`` holds everything of one work tree."""

    home: Path

    @property
    def source(self) -> Path:
        return self.home / "llama.cpp"

    @property
    def build(self) -> Path:
        return self.home / "build"

    @property
    def pristine(self) -> Path:
        """The original of every file that a patch ever changed."""
        return self.home / "pristine"

    @property
    def log(self) -> Path:
        return self.home / "build.log"


@contextmanager
def locked_tree(name: str, progress: Progress) -> Iterator[Tree]:
    """The work tree of this name, held against every other process."""
    home = cache_folder("native", "trees") / name
    lock = home.with_suffix(".lock")
    with exclusive(lock, lambda: progress(f"another process is building in {name}; waiting for it")):
        home.mkdir(exist_ok=True)
        try:
            yield Tree(home)
        finally:
            with suppress(OSError):  # only an empty one goes: nothing could be put into it
                home.rmdir()


def fill(tree: Tree, sha256: str, unpack: Callable[[Path], None], progress: Progress) -> None:
    """Put the source with this hash into the tree, unless it is there; ``unpack`` writes it to a new folder.

    A tree of another source, or one whose filling was cut short, is emptied first.
    """
    if _filled_with(tree) == sha256:
        return
    for part in (tree.source, tree.build, tree.pristine):
        shutil.rmtree(part, ignore_errors=True)
    (tree.home / FILLED).unlink(missing_ok=True)
    progress("unpacking its llama.cpp folder")
    unpack(tree.source)
    (tree.home / FILLED).write_text(json.dumps({"sha256": sha256}), "utf-8")


def _filled_with(tree: Tree) -> str | None:
    try:
        return str(json.loads((tree.home / FILLED).read_text("utf-8"))["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def original(tree: Tree, name: str) -> Path:
    """The unpatched form of a source file of the tree."""
    kept = tree.pristine / name
    return kept if kept.is_file() else tree.source / name


def put_texts(tree: Tree, texts: Mapping[str, str]) -> None:
    """Bring the tree to the state where exactly ``texts`` differ from the source.

    Only files whose content changes are written, so that only they are compiled again. An interrupted call
    is made good by the next one: originals are kept before anything is changed.
    """
    for name in texts:
        _keep_original(tree, name)
    for kept in sorted(tree.pristine.rglob("*")):
        name = str(kept.relative_to(tree.pristine))
        if kept.is_file() and not kept.name.endswith(".draft"):
            wanted = texts[name].encode() if name in texts else kept.read_bytes()
            write_changed(tree.source / name, wanted)


def _keep_original(tree: Tree, name: str) -> None:
    kept = tree.pristine / name
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_name(kept.name + ".draft")
        shutil.copyfile(tree.source / name, draft)
        draft.replace(kept)


def write_changed(path: Path, content: bytes) -> bool:
    """Write ``content`` to ``path`` when something else, or nothing, is there. True when it was written."""
    if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".draft")
    draft.write_bytes(content)
    if path.exists():
        draft.chmod(path.stat().st_mode & 0o777)
    os.replace(draft, path)
    return True
