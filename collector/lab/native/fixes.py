"""Our patches of llama.cpp: descriptions kept in deploy/reference-server, one TOML file each."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from analyzers.errors import UserError

toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

CHECKOUT = Path(__file__).resolve().parents[3] / "deploy" / "reference-server"
# Where the wheel puts them under the environment's root; see data-files in pyproject.toml.
INSTALLED = "share/llama-blackbox/reference-server"
DISTRIBUTION = "llama-blackbox"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_WAYS = ("replace", "before", "after")


@dataclass(frozen=True)
class Edit:
    """One change of one file: ``find`` (a regular expression; a blank stands for any run of white space)
    inside the body that the ``scope`` steps lead to, each found exactly once. ``every``: replaced wherever it
    stands, at least once; ``optional``: may be missing, as not every build has it.

    ``way`` replace puts ``text`` in its place; before and after add whole lines, indented as it is.
    """

    file: str
    find: str
    way: str
    text: str
    scope: tuple[str, ...] = ()
    every: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Unneeded:
    """``find`` in ``file`` shows that a build does not need the fix, ``says`` why."""

    file: str
    find: str
    says: str


@dataclass(frozen=True)
class Fix:
    """One patch. ``base`` is the build it was made for, ``defects`` the ids it ends, ``sha256`` is over its
    edits."""

    name: str
    base: int
    summary: str
    defects: tuple[str, ...]
    edits: tuple[Edit, ...]
    sha256: str
    unneeded: Unneeded | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(edit.file for edit in self.edits))


def fix_files() -> dict[str, Path]:
    """Name -> file of every fix: the checkout's, or those the wheel brought along."""
    found = sorted(CHECKOUT.glob("*.toml")) or _installed()
    return {path.stem: path for path in found}


def _installed() -> Sequence[Path]:
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return sorted(
        Path(str(file.locate())) for file in files if INSTALLED in str(file) and file.suffix == ".toml"
    )


def load_fix(name: str) -> Fix:
    """The fix of this name. Raises UserError when there is none."""
    known = fix_files()
    if name not in known:
        raise UserError(
            "no such fix",
            where=f"--fix {name if _NAME.fullmatch(name) else '?'}",
            remedy=f"choose one of: {', '.join(known) or 'none is installed'}",
        )
    return read_fix(known[name])


def read_fix(path: Path) -> Fix:
    """The fix described in ``path``. Raises UserError, with the reason, for a file that is not one."""
    try:
        raw = path.read_bytes()
        return _fix(toml.loads(raw.decode()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"not a description of a fix ({type(error).__name__}: {error})",
            where=str(path),
            remedy="install llama-blackbox again, or correct the file",
        ) from None


def _fix(data: dict[str, Any]) -> Fix:
    edits = json.dumps(data["edit"], sort_keys=True)  # comments may change, the binary stays the same
    unneeded = data.get("unneeded")
    return Fix(
        name=data["name"],
        base=data["base"],
        summary=data["summary"],
        defects=tuple(data["defects"]),
        edits=tuple(_edit(each) for each in data["edit"]),
        sha256=hashlib.sha256(edits.encode()).hexdigest(),
        unneeded=Unneeded(**unneeded) if unneeded else None,
    )


def _edit(data: dict[str, Any]) -> Edit:
    (way,) = [each for each in _WAYS if each in data]  # exactly one of them
    rest = {name: value for name, value in data.items() if name not in (way, "scope")}
    return Edit(way=way, text=data[way], scope=tuple(data.get("scope", ())), **rest)
