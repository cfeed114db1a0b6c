"""The inputs as the report lists them: each once, told apart by name, hashed, and known when they changed."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.report import Gap, InputFile
from analyzers.core.elf import MAGIC
from analyzers.core.files import opened_regular, plain, pread
from analyzers.errors import UserError

HASH_BLOCK = 1 << 20


@dataclass(frozen=True)
class Source:
    """One input: its path, the name it is shown by, its size (bytes) and change time when it was opened."""

    path: Path
    name: str
    size: int | None
    changed_ns: int | None


def sources(paths: Sequence[Path]) -> list[Source]:
    """Each file or folder once, however often and by whichever path it was given. Raises nothing."""
    seen: dict[object, Path] = {}
    for path in paths:
        seen.setdefault(_identity(path), path)
    once = list(seen.values())
    return [Source(path, name, *_stamp(path)) for path, name in zip(once, _names(once), strict=True)]


def _identity(path: Path) -> object:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return path
    return found.st_dev, found.st_ino


def _names(paths: Sequence[Path]) -> list[str]:
    """The base name, with as much of the path before it as tells two inputs apart."""
    forms: tuple[Callable[[Path], str], ...] = (
        lambda path: path.name or str(path),
        lambda path: f"{path.absolute().parent.name}/{path.name}",
        str,
    )
    names = [forms[0](path) for path in paths]
    for form in forms[1:]:
        counted = Counter(names)
        names = [form(path) if counted[name] > 1 else name for path, name in zip(paths, names, strict=True)]
    return [plain(name) for name in names]


def _stamp(path: Path) -> tuple[int | None, int | None]:
    try:
        found = path.stat()
        return (_folder_size(path) if path.is_dir() else found.st_size), found.st_mtime_ns
    except (OSError, ValueError):
        return None, None


def _folder_size(folder: Path) -> int:
    names = (os.path.join(at, name) for at, _, files in os.walk(folder) for name in files)
    return sum(_file_size(name) for name in names)


def _file_size(name: str) -> int:
    try:
        return os.lstat(name).st_size
    except OSError:
        return 0


def demand_program(exe: Path) -> None:
    """Raises UserError unless ``exe`` can be read and is an ELF file; a wrapper script is none."""
    where = f"--exe {plain(str(exe))}"
    with opened_regular(exe, where) as descriptor:
        if pread(descriptor, len(MAGIC), 0) != MAGIC:
            raise UserError(
                "not a program (no ELF file)",
                where=where,
                remedy="give the program itself, not a script that starts it",
            )


def lost(source: Source, error: OSError) -> UserError:
    """The refusal for an input that could be looked at, but not read to its end."""
    reason = (error.strerror or "error").lower()
    return UserError(
        f"cannot be read ({reason})",
        where=plain(str(source.path)),
        remedy="it may have been removed or replaced meanwhile; copy it and give the copy",
    )


def with_hashes(listed: Sequence[InputFile], inputs: Sequence[Source]) -> tuple[list[InputFile], list[Gap]]:
    """``listed`` with hashes, in the order of ``inputs``, and a gap for each that changed since."""
    pairs = list(zip(listed, inputs, strict=True))
    hashed = [item.model_copy(update={"sha256": _hash_or_none(source.path)}) for item, source in pairs]
    return hashed, [gap for source in inputs if (gap := _change(source)) is not None]


def _hash_or_none(path: Path) -> str | None:
    try:
        return sha256(path) if path.is_file() else None
    except OSError:
        return None


def _change(source: Source) -> Gap | None:
    now = _stamp(source.path)
    if now == (source.size, source.changed_ns):
        return None
    how = "is gone" if now == (None, None) else "changed"
    return Gap(
        what=f"agreement of {source.name} with this report",
        why=f"it {how} since it was opened, so a second run may say something else",
        command=f"copy it first: cp {source.name} evidence",
    )


def sha256(path: Path) -> str:
    """Of a file of any size, in flat memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()
