"""Which build a server's file is, by build-id and the catalogue's marks: each file is read once."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from analyzers.catalogue.known import Defects
from analyzers.catalogue.loader import known_defects
from analyzers.catalogue.model import Sign
from analyzers.core.buildid import build_id_of_file
from analyzers.core.marks import find_names
from analyzers.errors import UserError

REMEMBERED = 512  # files: every build of a host, many times over; an entry is under 1 KB
# Names that only a program with the HTTP server's own code has (tools/server/server-http.cpp, -context.cpp).
SERVER_SIGNS = (
    Sign("http", "_ZN19server_http_context", prefix=True),
    Sign("routes", "_ZN13server_routes", prefix=True),
)
Identity = tuple[int, int, int, int]


@dataclass(frozen=True)
class Build:
    """``text``: what the catalogue recognises, None for nothing; ``defects`` measured or presumed."""

    text: str | None = None
    build_id: str | None = None
    defects: tuple[str, ...] = ()


def identity(path: Path) -> Identity | None:
    """Device, inode, time and size: another content is another identity. None when it cannot be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


class Builds:
    """What was seen in files. Not thread-safe. ``reads`` counts the files whose contents were looked at."""

    def __init__(self) -> None:
        self.reads = 0
        self._known: OrderedDict[Identity, Build] = OrderedDict()
        self._by_id: OrderedDict[str, Build] = OrderedDict()
        self._serves: OrderedDict[Identity, bool] = OrderedDict()

    def of(self, path: Path) -> Build:
        """The build of the file with the server's code. Raises nothing: what cannot be read is unknown."""
        at = identity(path)
        if at is None:
            return Build()
        found = self._known.get(at)
        if found is None:
            found = self._read(path)
            _keep(self._known, at, found)
        return found

    def _read(self, path: Path) -> Build:
        self.reads += 1
        try:
            build_id = build_id_of_file(path)
            if build_id is not None and build_id in self._by_id:
                return self._by_id[build_id]
            made = recognised(known(), build_id, find_names(path, known().every_sign()))
        except UserError:
            return Build()
        if build_id is not None:
            _keep(self._by_id, build_id, made)
        return made

    def seen(self, path: Path) -> bool:
        """Whether ``serves`` answers without reading the file."""
        return identity(path) in self._serves

    def serves(self, path: Path) -> bool:
        """Whether a program under any name has the server's code, by its symbols; a stripped one has not."""
        at = identity(path)
        if at is None:
            return False
        found = self._serves.get(at)
        if found is None:
            self.reads += 1
            try:
                found = bool(find_names(path, SERVER_SIGNS))
            except UserError:
                found = False
            _keep(self._serves, at, found)
        return found


def recognised(catalogue: Defects, build_id: str | None, marks: tuple[str, ...]) -> Build:
    """What the catalogue says of a file with this build-id and these names."""
    found = catalogue.recognise(build_id, marks)
    exposed = tuple(
        defect.id
        for defect in catalogue.defects
        if defect.exposure and catalogue.standing(defect.id, found, marks).exposed
    )
    text = None if found.how == "unknown" else str(found)
    return Build(text, build_id, exposed if text is not None else ())


@lru_cache(maxsize=1)
def known() -> Defects:
    """The catalogue, loaded when the first server is looked at."""
    return known_defects()


def _keep(table: OrderedDict, key: object, value: object) -> None:  # type: ignore[type-arg]
    table[key] = value
    if len(table) > REMEMBERED:
        table.popitem(last=False)
