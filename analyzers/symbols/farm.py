"""A folder of links, laid out by build-id, through which the stack tools find the files of one core."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analyzers.core.model import Core
from analyzers.symbols.naming import Symbols
from analyzers.symbols.places import Found, is_build_id

MAX_MODULES = 256  # mapped files of one core; a hosted server has about 60


@contextmanager
def farm(core: Core, symbols: Symbols) -> Iterator[Path | None]:
    """A private folder with ``.build-id/xx/…`` of every module that was found; None when none was.

    The links are ours and lead to files whose build-id was checked; the folder goes with the context.
    """
    found = [each for path in _modules(core) if (each := symbols.of(path)) is not None]
    if not any(each.files for each in found):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="llama-blackbox-symbols-") as name:
        for each in found:
            _link(Path(name), each)
        yield Path(name)


def _modules(core: Core) -> Iterable[str]:
    return list(core.build_ids)[:MAX_MODULES]


def _link(root: Path, found: Found) -> None:
    if not is_build_id(found.build_id):
        return
    folder = root / ".build-id" / found.build_id[:2]
    folder.mkdir(parents=True, exist_ok=True)
    for path, suffix in ((found.program, ""), (found.debug, ".debug")):
        link = folder / f"{found.build_id[2:]}{suffix}"
        if path is not None and not link.is_symlink():
            link.symlink_to(path.absolute())
