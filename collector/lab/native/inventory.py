"""What the cache holds, and its removal: nothing outside the cache is touched, nothing in use is taken."""

from __future__ import annotations

import shutil
from pathlib import Path

from collector.lab.native.build import folder_bytes
from collector.lab.native.fixes import fix_files, read_fix
from collector.lab.native.store import all_builds
from collector.lab.reference.cache import cache_entries, cache_path, exclusive

Sections = list[tuple[str, list[str]]]


class InUseError(Exception):
    """Another process holds it."""


def entries(kind: str) -> list[Path]:
    """The removable things of a kind: trees | builds | sources | ccache | servers."""
    if kind == "ccache":
        found = [cache_path("native", "ccache")]
    elif kind == "sources":
        packages = [each for each in cache_entries("native", "sdists") if each.name.endswith(".tar.gz")]
        fetchers = [each for each in cache_entries("native") if each.name.startswith("downloader-")]
        found = packages + fetchers
    else:
        found = cache_entries("servers") if kind == "servers" else cache_entries("native", kind)
    return [each for each in found if not _is_bookkeeping(each) and _is_ours(each)]


def _is_bookkeeping(path: Path) -> bool:
    """Locks, pinned hashes, and drafts that somebody may be writing at this moment."""
    return path.suffix in (".lock", ".json") or path.name.startswith(".")


def _is_ours(path: Path) -> bool:
    """It lies in the cache even when links on the way to it are followed."""
    return path.exists() and path.parent.resolve().is_relative_to(cache_path().resolve())


def weigh(entry: Path) -> int:
    """The bytes that its removal frees; of a link those of the link itself."""
    return entry.lstat().st_size if entry.is_symlink() or entry.is_file() else folder_bytes(entry)


def remove(entry: Path) -> int | None:
    """Remove it and return the bytes freed; None when another process is at work in it."""
    try:
        with exclusive(entry.with_suffix(".lock"), _in_use):
            freed = weigh(entry)
            if entry.is_symlink() or entry.is_file():
                entry.unlink()  # a link itself, never what it points to
            else:
                shutil.rmtree(entry, ignore_errors=True)
    except InUseError:
        return None
    return freed


def _in_use() -> None:
    raise InUseError


def sections() -> Sections:
    """Headings with their rows, for ``reference list``."""
    from collector.lab.native.commands import size

    def rows(kind: str) -> list[str]:
        return [f"{each.name:44} {size(_bytes(each)):>8}" for each in entries(kind)]

    builds = [
        f"{made.name:34} {made.record['date']}  {size(made.record['bytes']['binary']):>8}  {made.binary}"
        for made in all_builds()
    ]
    return [
        ("native builds (llama-blackbox reference build)", builds),
        ("work trees, kept so that a patch costs a minute", rows("trees")),
        ("source packages", rows("sources")),
        ("compiler cache", rows("ccache")),
        ("environments of xllamacpp wheels", rows("servers")),
        ("fixes (--fix)", fixes()),
    ]


def _bytes(entry: Path) -> int:
    return entry.stat().st_size if entry.is_file() else folder_bytes(entry)


def fixes() -> list[str]:
    """One row per fix: name, base build, the defects it ends, what it does."""
    found = [read_fix(path) for path in fix_files().values()]
    return [
        f"{fix.name:20} for b{fix.base} and its neighbours, ends {', '.join(fix.defects)}: {fix.summary}"
        for fix in found
    ]
