"""Catalogue packs: further defects, builds and signs from packages the user installed.

A pack is an entry point of the group ``llama_blackbox.catalogue`` whose object is the path of a TOML file in
the form of defects.toml, or a callable that returns one. Loading it runs that package's code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.catalogue.model import Sign
from analyzers.catalogue.tables import printable
from analyzers.errors import UserError

if TYPE_CHECKING:
    from analyzers.catalogue.known import Defects

GROUP = "llama_blackbox.catalogue"
METADATA = (".dist-info", ".egg-info")
ENTRY_POINTS = "entry_points.txt"
ENTRY_POINTS_LIMIT = 1 << 16  # bytes; packages with hundreds of scripts stay below
Read = Callable[[Path], "Defects"]


def with_packs(known: Defects, read: Read) -> Defects:
    """``known`` and what every pack adds to it. Never raises: a broken pack, and an entry that would
    replace a known one, become notes."""
    for name, load in _declared():
        try:
            pack = read(Path(load()))
        except UserError as error:
            known = noted(known, f"catalogue pack '{name}' was left out: {error.what} ({error.where})")
        except Exception as error:  # noqa: BLE001 - foreign code may fail in any way, and sinks nothing here
            known = noted(known, f"catalogue pack '{name}' was left out: {type(error).__name__}")
        else:
            known = _joined(known, name, pack)
    return known


def noted(known: Defects, line: str) -> Defects:
    return replace(known, notes=(*known.notes, printable(line, 300)))


def _declared() -> list[tuple[str, Callable[[], str]]]:
    """(name, loader) of every pack installed. importlib.metadata costs a triage 20 ms, so it is asked only
    when some package's own list names the group."""
    if not any(_names_group(folder) for folder in dict.fromkeys(sys.path)):
        return []
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return [(printable(point.name), _loader(point.load)) for point in found]


def _loader(load: Callable[[], Any]) -> Callable[[], str]:
    def path() -> str:
        found = load()
        return str(os.fspath(found() if callable(found) else found))

    return path


def _names_group(folder: str) -> bool:
    try:
        names = [
            entry.name for entry in os.scandir(folder) if entry.name.endswith((".dist-info", ".egg-info"))
        ]
    except OSError:  # not a folder, or gone
        return False
    return any(_holds_group(os.path.join(folder, name, ENTRY_POINTS)) for name in names)


def _holds_group(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return GROUP.encode() in file.read(ENTRY_POINTS_LIMIT)
    except OSError:  # most packages have none
        return False


def _joined(known: Defects, name: str, pack: Defects) -> Defects:
    """Both together; whatever the pack would replace is refused, each with a note."""
    taken = {key for defect in known.defects for key in (defect.id.casefold(), defect.name.casefold())}
    defects = [d for d in pack.defects if not {d.id.casefold(), d.name.casefold()} & taken]
    wheels = [wheel for wheel in pack.wheels if known.known_build(wheel.build_id) is None]
    own = {sign.id for sign in known.every_sign()}
    marked = [d for d in defects if not {mark.id for mark in d.marks} & own]
    signs = [sign for sign in pack.signs if sign.id not in own]
    refused = [
        *_missing("defect", (d.id for d in pack.defects), (d.id for d in marked)),
        *_missing("build", (w.build_id for w in pack.wheels), (w.build_id for w in wheels)),
        *_missing("sign", _ids(pack.signs), _ids(signs)),
    ]
    for what in refused:
        known = noted(known, f"catalogue pack '{name}': its {what} is refused, as it is known already")
    return replace(
        known,
        defects=(*known.defects, *marked),
        wheels=(*known.wheels, *wheels),
        signs=(*known.signs, *signs),
        commits={**pack.commits, **known.commits},
        proofs={**pack.proofs, **known.proofs},
        packs=(*known.packs, f"{name} {pack.version}"),
        version=f"{known.version}+{name}.{pack.version}",
    )


def _ids(signs: Iterable[Sign]) -> Iterable[str]:
    return (sign.id for sign in signs)


def _missing(kind: str, offered: Iterable[str], taken: Iterable[str]) -> list[str]:
    kept = set(taken)
    return [f"{kind} {printable(id)}" for id in offered if id not in kept]
