"""The inputs as the report lists them: each once, told apart by name, hashed, and known when they changed."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from analyzers.contracts.report import Gap, InputFile
from analyzers.core.elf import MAGIC
from analyzers.core.files import opened_regular, plain, pread
from analyzers.errors import UserError
from analyzers.triage.sniff import ARCHIVE, FOLDER, JOURNAL, Look, look

HASH_BLOCK = 1 << 20
# Bytes: a file of one hole can claim exabytes. The largest cores systemd-coredump stores have 32 GiB.
MAX_HASHED = 64 << 30
STDIN = Path("-")
UNUSED = "unused"  # kind of a file in a folder that is no evidence
CAPTURE, CAPTURED_PROGRAM = "capture.json", "exe"  # names in a capture's folder (docs/capture.md)


@dataclass(frozen=True)
class Source:
    """One input: its path, the name it is shown by, its size (bytes) and change time when it was opened.

    ``found`` marks what a folder held: it must be evidence by its content, and is "unused" when it is not.
    ``parts`` are the journal files of a folder; ``gaps`` what of a folder was left out. ``problem``: why it
    cannot be used, which costs only itself beside a core that can.
    """

    path: Path
    name: str
    size: int | None
    changed_ns: int | None
    look: Look | None = None
    found: bool = False
    parts: tuple[Path, ...] = ()
    gaps: tuple[Gap, ...] = ()
    problem: UserError | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to read: the journals of a folder, else the input itself."""
        return self.parts or (self.path,)


def given(paths: Sequence[Path], stack: ExitStack) -> list[Source]:
    """The inputs as they will be read: ``-`` is standard input, and a folder or zip archive is followed by
    what is in it. Copies live as long as ``stack``.

    Raises UserError for an input that cannot be used, and for a folder with nothing in it that can.
    """
    found = [one for source in sources(paths) for one in _usable(source, stack)]
    if not any(source.look is not None and source.look.kind == "core" for source in found):
        demand_all(found)
    return found


def demand_all(inputs: Sequence[Source]) -> None:
    """Raises UserError for the first input that cannot be used."""
    problem = next((source.problem for source in inputs if source.problem is not None), None)
    if problem is not None:
        raise problem


def _usable(source: Source, stack: ExitStack) -> list[Source]:
    """A file that is there and no evidence is listed with its problem; one that is not there is refused."""
    try:
        return _with_content(source, stack)
    except UserError as problem:
        if source.size is None or source.path == STDIN:
            raise
        return [replace(source, problem=problem)]


def _with_content(source: Source, stack: ExitStack) -> list[Source]:
    if source.path == STDIN:
        from analyzers.triage.readers.folders import from_stdin

        path = from_stdin(stack)
        source = Source(path, "standard input", *_stamp(path))
    try:
        source = replace(source, look=look(source.path))
    except OSError as error:
        raise lost(source, error) from error
    kind = source.look.kind if source.look else None
    if kind == FOLDER:
        return list(_in_folder(source, source.path))
    if kind == ARCHIVE:
        from analyzers.triage.readers.folders import unzipped

        return list(_in_folder(source, unzipped(source.path, stack)))
    return [source]


def _in_folder(source: Source, root: Path) -> Iterator[Source]:
    """The folder itself, then what it holds. Raises UserError when nothing of it is evidence."""
    from analyzers.triage.readers.folders import walk, walk_gaps

    found = walk(root)
    inside = [_member(path, f"{source.name}/{name}") for path, name in found.files]
    if not found.journals and not any(one.look for one in inside):
        raise UserError(
            f"a folder and no bundle, and none of its {found.seen:,} files is evidence"
            if source.look and source.look.kind == FOLDER
            else f"a zip archive, and none of its {found.seen:,} files is evidence",
            where=plain(str(source.path)),
            remedy="name the files that are",
        )
    yield replace(source, gaps=tuple(walk_gaps(found, source.name)))
    if found.journals:
        name = (
            f"{source.name}/*.journal"
            if len(found.journals) > 1
            else f"{source.name}/{found.journals[0].name}"
        )
        size = sum(_file_size(str(path)) for path in found.journals)
        yield Source(found.journals[0], plain(name), size, None, Look(JOURNAL), True, tuple(found.journals))
    yield from inside


def _member(path: Path, name: str) -> Source:
    """A file that a folder held, with a look only when it is evidence by its content."""
    member = Source(path, name, *_stamp(path), found=True)
    try:
        seen = look(path)
    except UserError as problem:
        return replace(member, gaps=(Gap(what=name, why=f"not used: {problem.what}"),))
    except OSError as error:
        return replace(member, gaps=(Gap(what=name, why=f"not used: {(error.strerror or 'error').lower()}"),))
    if seen.kind == ARCHIVE:
        why = "not used: an archive inside; give it as an input of its own"
        return replace(member, gaps=(Gap(what=name, why=why),))
    return replace(member, look=seen) if seen.sure else member


def sources(paths: Sequence[Path]) -> list[Source]:
    """Each file or folder once, however often and by whichever path it was given. Raises nothing."""
    seen: dict[object, Path] = {}
    for path in paths:
        seen.setdefault(path if path == STDIN else _identity(path), path)
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


def demand_folders(folders: Sequence[Path]) -> None:
    """Raises UserError unless each is a folder that is there."""
    for folder in folders:
        if not folder.is_dir():
            where = f"--symbols {plain(str(folder))}"
            raise UserError("not a folder", where=where, remedy="give a folder of program or symbol files")


def copies_beside(source: Source) -> tuple[Path | None, tuple[Path, ...]]:
    """The program and the folders of symbol files that a capture, handed in as a folder, holds of its core.

    They are copies of files that were gone when the process died.
    """
    folder = source.path.parent
    if not source.found or not (folder / CAPTURE).is_file():
        return None, ()
    program = folder / CAPTURED_PROGRAM
    return (program if program.is_file() and not program.is_symlink() else None), (folder,)


def lost(source: Source, error: OSError) -> UserError:
    """The refusal for an input that could be looked at, but not read to its end."""
    reason = (error.strerror or "error").lower()
    return UserError(
        f"cannot be read ({reason})",
        where=plain(str(source.path)),
        remedy="it may have been removed or replaced meanwhile; copy it and give the copy",
    )


def with_hashes(listed: Sequence[InputFile], inputs: Sequence[Source]) -> tuple[list[InputFile], list[Gap]]:
    """``listed`` with hashes where they are files, and a gap for each of ``inputs`` that changed since or is
    too large.

    Parts of an input that are listed on their own (the blocks of an issue) have no hash.
    """
    by_name = {source.name: source for source in inputs if not source.parts}
    hashed = [_hashed(item, by_name.get(item.name)) for item in listed]
    found = (gap for source in by_name.values() for gap in (_change(source), _unhashed(source)))
    return hashed, [gap for gap in found if gap is not None]


def _hashed(item: InputFile, source: Source | None) -> InputFile:
    return item if source is None else item.model_copy(update={"sha256": _hash_or_none(source.path)})


def _hash_or_none(path: Path) -> str | None:
    try:
        return sha256(path) if path.is_file() and path.stat().st_size <= MAX_HASHED else None
    except OSError:
        return None


def _unhashed(source: Source) -> Gap | None:
    if source.size is None or source.size <= MAX_HASHED:
        return None
    return Gap(
        what=f"the hash of {source.name}",
        why=f"it has {source.size:,} bytes; more than {MAX_HASHED >> 30} GiB are not hashed here",
        command=f"sha256sum {source.name}",
    )


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
