"""Whole folders, zip archives and standard input, as the files that are in them.

A walk follows no links and is bounded in number, depth and time by its counts. What is no evidence is listed
as unused: a folder that somebody hands over holds all sorts of things.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from analyzers.bundle.names import fault_of
from analyzers.contracts.report import Gap
from analyzers.core.files import opened_regular, plain, pread
from analyzers.errors import UserError
from analyzers.triage.sniff import JOURNAL_MAGIC

MAX_FILES = 500  # a report's list of inputs that a person can still read through
MAX_SEEN = 50_000  # names looked at; a whole /var/log has some thousands
MAX_DEPTH = 8
BLOCK = 1 << 20
MAX_STDIN = 32 << 30  # bytes; a core's own limit
MAX_UNZIPPED = 8 << 30  # bytes of all members together
ZIP_RATIO = 1100  # deflate's own limit is 1032
PREFIX = "llama-blackbox-"


@dataclass
class Walk:
    """The files below one folder, as paths and names relative to it, and what was left out."""

    files: list[tuple[Path, str]] = field(default_factory=list)
    journals: list[Path] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)  # (name, why)
    seen: int = 0
    more: int = 0


def walk(root: Path) -> Walk:
    """Regular files in the order of their names. Journal files are kept apart: they belong together."""
    found = Walk()
    for path in _paths(root, found):
        name = plain(path.relative_to(root).as_posix())
        why = _not_regular(path)
        if why is not None:
            found.left.append((name, why))
        elif _is_journal(path):
            found.journals.append(path)
        elif len(found.files) >= MAX_FILES:
            found.more += 1
        else:
            found.files.append((path, name))
    return found


def _paths(root: Path, found: Walk) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        name = plain(os.path.relpath(error.filename or root, root))
        found.left.append((name, (error.strerror or "error").lower()))

    for at, folders, files in os.walk(root, onerror=fail):
        depth = len(Path(at).relative_to(root).parts)
        if depth >= MAX_DEPTH and folders:
            found.left += [
                (plain(os.path.relpath(os.path.join(at, name), root)), "too deep") for name in folders
            ]
            folders.clear()
        folders.sort()
        for name in sorted([*files, *(one for one in folders if os.path.islink(os.path.join(at, one)))]):
            found.seen += 1
            if found.seen > MAX_SEEN:
                found.more += 1
                return
            yield Path(at, name)


def _not_regular(path: Path) -> str | None:
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        return (error.strerror or "error").lower()
    if stat.S_ISLNK(mode):
        return "a link; links are not followed"
    return None if stat.S_ISREG(mode) else "not a regular file"


def _is_journal(path: Path) -> bool:
    try:
        with opened_regular(path) as descriptor:
            return pread(descriptor, len(JOURNAL_MAGIC), 0) == JOURNAL_MAGIC
    except UserError:
        return False


def walk_gaps(found: Walk, name: str) -> list[Gap]:
    """What of the folder was not even looked at."""
    gaps = []
    if found.left:
        told = "; ".join(f"{one} ({why})" for one, why in found.left[:8])
        told += f" and {len(found.left) - 8} more" if len(found.left) > 8 else ""
        gaps.append(Gap(what=f"{len(found.left)} names in {name}", why=f"not used: {told}"))
    if found.more:
        gaps.append(
            Gap(
                what=f"{found.more:,} or more further files in {name}",
                why=f"a folder is read up to {MAX_FILES} files and {MAX_DEPTH} levels",
                command="name the files that matter",
            )
        )
    return gaps


def unzipped(path: Path, stack: ExitStack) -> Path:
    """The archive's files below a private folder that is gone with ``stack``. Raises UserError."""
    where = plain(str(path))
    target = _private(stack, where)
    try:
        with zipfile.ZipFile(path) as archive:
            _extract(archive, target, where)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise UserError(
            f"a zip archive that cannot be read ({plain(str(error), 80)})",
            where=where,
            remedy="unpack it and name the files in it",
        ) from error
    except OSError as error:
        raise UserError(
            f"cannot be unpacked ({(error.strerror or 'error').lower()})",
            where=where,
            remedy="free space or set TMPDIR to a folder with room",
        ) from error
    return target


def _private(stack: ExitStack, where: str) -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    except OSError as error:
        raise UserError(
            f"no temporary folder ({(error.strerror or 'error').lower()})",
            where=where,
            remedy="set TMPDIR to a folder that can be written",
        ) from error
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _extract(archive: zipfile.ZipFile, target: Path, where: str) -> None:
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > MAX_FILES * 4:
        raise UserError(
            f"holds {len(members):,} files", where=where, remedy="unpack it and name the files that matter"
        )
    good = [one for one in members if not _leads_out(one)]
    if members and not good:
        raise UserError(
            f"all {len(members):,} names in it are links or lead out of it",
            where=where,
            remedy="pack it again from inside the folder, or name the files",
        )
    room = min(MAX_UNZIPPED, ZIP_RATIO * path_size(archive) + BLOCK)
    for member in good:
        place = target / member.filename
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with archive.open(member) as source, place.open("xb") as file:
            room -= _copy(source, file, room, where)


def _leads_out(member: zipfile.ZipInfo) -> bool:
    """A link, or a name that leads elsewhere, is nothing to read."""
    return fault_of(member.filename) is not None or stat.S_ISLNK(member.external_attr >> 16)


def path_size(archive: zipfile.ZipFile) -> int:
    """Bytes of the archive itself."""
    return os.fstat(archive.fp.fileno()).st_size if archive.fp is not None else 0


def _copy(source: IO[bytes], file: IO[bytes], room: int, where: str) -> int:
    size = 0
    while block := source.read(BLOCK):
        size += len(block)
        if size > room:
            raise UserError(
                f"unpacks to more than {size:,} bytes, far beyond its size"
                if room < MAX_UNZIPPED
                else f"unpacks to more than {MAX_UNZIPPED:,} bytes",
                where=where,
                remedy="unpack it yourself and name the files that matter",
            )
        file.write(block)
    return size


def from_stdin(stack: ExitStack) -> Path:
    """Standard input as a private file that is gone with ``stack``. Raises UserError for a terminal, a full
    disk, nothing at all."""
    stream = sys.stdin.buffer if sys.stdin is not None else None
    if stream is None or sys.stdin.isatty():
        raise UserError(
            "standard input is a terminal",
            where="-",
            remedy="pipe something in: journalctl -o export | … triage -",
        )
    path = _private(stack, "-") / "standard-input"
    try:
        with path.open("wb") as file:
            size = _copy_in(stream, file)
    except OSError as error:
        raise UserError(
            f"cannot be kept ({(error.strerror or 'error').lower()})",
            where="-",
            remedy="write it to a file and give the file",
        ) from error
    if size == 0:
        raise UserError(
            "nothing came in",
            where="standard input",
            remedy="does the command before the pipe print anything?",
        )
    return path


def _copy_in(stream: IO[bytes], file: IO[bytes]) -> int:
    """Bytes that came in."""
    size = 0
    while block := stream.read(BLOCK):
        size += len(block)
        if size > MAX_STDIN:
            raise UserError(
                f"more than {MAX_STDIN:,} bytes", where="-", remedy="write it to a file and give the file"
            )
        if block.count(0) == len(block):
            file.seek(len(block), os.SEEK_CUR)  # cores are mostly holes
        else:
            file.write(block)
    file.truncate(size)
    file.flush()
    return size
