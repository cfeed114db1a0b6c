"""Where program and symbol files of one build-id may stand, and which of them really are that build.

A file counts only when its own build-id is the wanted one (or, for a .gnu_debuglink without build-id, when
its CRC is right): a file of the same name and another build would give wrong names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from analyzers.core.buildid import build_id_of_file
from analyzers.errors import UserError
from analyzers.symbols.elffile import ElfFile, alternate_link, crc_of, debug_link, read_elf

SYSTEM = Path("/usr/lib/debug")  # where distributions' -dbgsym and -debuginfo packages go
MAX_FOLDERS = 32  # handed in by the user
MAX_LISTED = 1024  # files of a handed folder that are asked for their build-id
MIN_ID_CHARS = 16  # shorter ids name no build; usual are 40 and 32
HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Places:
    """``folders`` the user named (searched first), the ``cache``, the system's ``debug`` folder.

    ``local``: the path that the core names counts too, where the same build still stands there.
    """

    folders: tuple[Path, ...] = ()
    cache: Path | None = None
    debug: Path | None = SYSTEM
    local: bool = True


@dataclass(frozen=True)
class Found:
    """The files of one build. ``how`` names the place of each; ``refused`` says what stood there and was
    another build. ``alternate`` is dwz's shared part."""

    build_id: str
    program: Path | None = None
    debug: Path | None = None
    alternate: Path | None = None
    how: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that may name functions, the fuller one first."""
        return tuple(path for path in (self.debug, self.program) if path is not None)


def is_build_id(text: str) -> bool:
    """A build-id in lower-case hex: safe as a part of a path."""
    return MIN_ID_CHARS <= len(text) <= 128 and len(text) % 2 == 0 and set(text) <= HEX


def find(build_id: str, mapped: str, places: Places) -> Found:
    """The files of ``build_id``, which the core mapped as ``mapped``. Never raises; bounded reads only."""
    if not is_build_id(build_id):
        return Found(build_id)
    refused: list[str] = []
    program = _first(_programs(build_id, mapped, places), build_id)
    debug = _first(_debugs(build_id, mapped, places), build_id)
    if program is None and debug is None:
        refused = _others(build_id, mapped, places)
    described = read_elf(program) if program else None
    if debug is None and described is not None:
        debug = _linked(described, mapped, places, build_id, refused)
    shared = _alternate(debug or program, places)
    how = tuple(f"{what}: {path}" for what, path in (("program", program), ("symbols", debug)) if path)
    return Found(build_id, program, debug, shared, how, tuple(dict.fromkeys(refused)))


def _programs(build_id: str, mapped: str, places: Places) -> Iterator[Path]:
    for folder in places.folders[:MAX_FOLDERS]:
        yield folder / ".build-id" / build_id[:2] / build_id[2:]
        yield folder / build_id / "executable"
        yield from _named(folder, mapped)
        yield from _listed(folder)
    if places.local and os.path.isabs(mapped):
        yield Path(mapped)
    if places.cache is not None:
        yield places.cache / build_id / "executable"


def _debugs(build_id: str, mapped: str, places: Places) -> Iterator[Path]:
    split = Path(".build-id", build_id[:2], f"{build_id[2:]}.debug")
    for folder in places.folders[:MAX_FOLDERS]:
        yield folder / split
        yield folder / build_id / "debuginfo"
        yield from (path.with_name(f"{path.name}.debug") for path in _named(folder, mapped))
    if places.debug is not None:
        yield places.debug / split
    if places.cache is not None:
        yield places.cache / build_id / "debuginfo"


def _named(folder: Path, mapped: str) -> Iterator[Path]:
    """As a copied tree holds it, and as a file put there by hand. A mapped name is the core's word: no
    part of it may lead out of the folder."""
    parts = [part for part in mapped.split("/") if part]
    if not parts or ".." in parts or "\0" in mapped:
        return
    yield folder.joinpath(*parts)
    yield folder / parts[-1]


def _listed(folder: Path) -> list[Path]:
    """What lies in the folder itself under any name: a renamed file still has its build-id."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in islice(entries, MAX_LISTED) if entry.is_file())
    except OSError:
        return []


def _first(paths: Iterable[Path], build_id: str) -> Path | None:
    return next((path for path in paths if _build_id(path) == build_id), None)


def _build_id(path: Path) -> str | None:
    try:
        return build_id_of_file(path) if path.is_file() else None
    except (UserError, OSError, ValueError):
        return None


def _others(build_id: str, mapped: str, places: Places) -> list[str]:
    """Handed files of the module's own name that are another build: somebody chose them, so it is said."""
    paths = (path for folder in places.folders[:MAX_FOLDERS] for path in _named(folder, mapped))
    ids = ((path, _build_id(path)) for path in paths)
    return [f"{path} has build-id {found}" for path, found in ids if found not in (None, build_id)]


def _linked(program: ElfFile, mapped: str, places: Places, build_id: str, refused: list[str]) -> Path | None:
    """By .gnu_debuglink: beside the program, in .debug beside it, under the debug folder, or handed in."""
    link = debug_link(program)
    if link is None:
        return None
    beside = program.path.parent
    under = (root / beside.relative_to("/") for root in (places.debug,) if root and beside.is_absolute())
    for folder in (*places.folders[:MAX_FOLDERS], beside, beside / ".debug", *under):
        path = folder / link.name
        if not path.is_file() or path == program.path:
            continue
        found = read_elf(path)
        if found is None or found.build_id not in (None, build_id):
            refused.append(f"{path} is another build's")
        elif crc_of(path) == link.crc:
            return path
        else:
            refused.append(f"{path} does not have the CRC that the program names")
    return None


def _alternate(path: Path | None, places: Places) -> Path | None:
    described = read_elf(path) if path else None
    link = alternate_link(described) if described else None
    if link is None or link.build_id is None or not is_build_id(link.build_id):
        return None
    split = Path(".build-id", link.build_id[:2], f"{link.build_id[2:]}.debug")
    roots = [*places.folders[:MAX_FOLDERS], *([places.debug] if places.debug else [])]
    candidates = [root / part for root in roots for part in (split, Path(".dwz") / link.name)]
    return _first(candidates, link.build_id)
