"""Opens a bundle, whoever made it: checks it, and says by name what is missing or altered."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from analyzers.bundle import limits
from analyzers.bundle.errors import corrupt, os_error
from analyzers.bundle.evidence import read_evidence
from analyzers.bundle.folder import list_folder, read_bounded
from analyzers.bundle.unpack import Member, unpack
from analyzers.contracts.bundle import EVIDENCE_NAME, MANIFEST_NAME, BundleFile, Manifest
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from analyzers.privacy.visible import visible

MAJOR = 1  # the newest major version of the manifest that is understood


@dataclass(frozen=True)
class OpenFile:
    """One file of an open bundle. ``verified``: size and hash are those the manifest names."""

    path: Path
    name: str
    kind: str
    size: int
    sha256: str | None
    verified: bool


@dataclass(frozen=True)
class OpenBundle:
    """A bundle's content while it is open. ``gaps`` are the writer's own and those found on reading."""

    root: Path
    manifest: Manifest
    files: tuple[OpenFile, ...]
    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...]


@contextmanager
def open_bundle(path: Path, *, check_hashes: bool = True) -> Iterator[OpenBundle]:
    """Open a folder, ``.tar.zst``, ``.tar.gz`` or ``.tar``. Archives are unpacked below a private temporary
    folder that is gone afterwards; nothing else is written, and the bundle itself never changes.

    ``check_hashes=False`` leaves the files of a folder unread (a core can be gigabytes); sizes are always
    compared. Raises UserError when the bundle is damaged, hostile, or of a newer major version.
    """
    if path.is_dir():
        members, gaps = list_folder(path, check_hashes)
        yield _opened(path, path, members, gaps)
        return
    temp = _private_folder(path)
    try:
        root = temp / "bundle"
        root.mkdir(mode=0o700)
        yield _opened(path, root, unpack(path, root), [])
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def _private_folder(path: Path) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="llama-blackbox-"))
    except OSError as error:
        raise os_error(error, f"{path} (temporary folder)") from error


def _opened(source: Path, root: Path, members: list[Member], gaps: list[Gap]) -> OpenBundle:
    root, members = _without_top_folder(root, members)
    by_name = {member.name: member for member in members}
    manifest = _manifest(source, root) if MANIFEST_NAME in by_name else None
    if manifest is None:
        gaps = [
            *gaps,
            Gap(what=MANIFEST_NAME, why="not in the bundle: nothing can be compared with what was written"),
        ]
    listed = {file.path: file for file in (manifest or Manifest()).files}
    evidence, evidence_gaps = read_evidence(root / EVIDENCE_NAME) if EVIDENCE_NAME in by_name else ((), [])
    files = [
        _file(root, m, listed.get(m.name)) for m in members if m.name not in (MANIFEST_NAME, EVIDENCE_NAME)
    ]
    return OpenBundle(
        root=root,
        manifest=manifest or Manifest(),
        files=tuple(sorted(files, key=lambda file: file.name)),
        evidence=evidence,
        gaps=(
            *(manifest.gaps if manifest else ()),
            *gaps,
            *_compared(listed, by_name, manifest),
            *evidence_gaps,
        ),
    )


def _without_top_folder(root: Path, members: list[Member]) -> tuple[Path, list[Member]]:
    """``tar czf x.tar.gz folder`` puts everything below one folder: that folder is then the bundle."""
    tops = {member.name.partition("/")[0] for member in members}
    top = next(iter(tops)) if len(tops) == 1 else ""
    if not any(member.name in (f"{top}/{MANIFEST_NAME}", f"{top}/{EVIDENCE_NAME}") for member in members):
        return root, members
    return root / top, [Member(m.name[len(top) + 1 :], m.size, m.sha256) for m in members]


def _manifest(source: Path, root: Path) -> Manifest:
    where = f"{source} ({MANIFEST_NAME})"
    try:
        manifest = Manifest.from_json(read_bounded(root / MANIFEST_NAME, limits.MAX_MANIFEST, where))
    except ValidationError as error:
        raise corrupt(f"the manifest cannot be read ({error.error_count()} faults)", where) from error
    if manifest.major is None:
        raise corrupt(f"it says it is {manifest.schema_[:80]!r}, not a bundle", where)
    if manifest.major > MAJOR:
        what = f"it was written by a newer version (bundle format {manifest.major}, understood up to {MAJOR})"
        raise UserError(visible(what), where=visible(where), remedy="update llama-blackbox")
    return manifest


def _file(root: Path, member: Member, listed: BundleFile | None) -> OpenFile:
    return OpenFile(
        path=root / member.name,
        name=member.name,
        kind=listed.kind if listed else "unknown",
        size=member.size,
        sha256=member.sha256 or None,
        verified=listed is not None
        and bool(listed.sha256)
        and bool(member.sha256)
        and not _altered(listed, member),
    )


def _altered(listed: BundleFile, member: Member) -> bool:
    size = listed.size is not None and listed.size != member.size
    return size or bool(listed.sha256 and member.sha256 and listed.sha256.lower() != member.sha256)


def _compared(
    listed: Mapping[str, BundleFile], found: Mapping[str, Member], manifest: Manifest | None
) -> Iterator[Gap]:
    """What the manifest promises and the bundle does not keep."""
    if manifest is None:
        return
    for name, file in listed.items():
        if name not in found:
            yield Gap(
                what=visible(name[: limits.MAX_NAME]), why="named in the manifest, missing in the bundle"
            )
        elif _altered(file, found[name]):
            yield Gap(what=name, why="altered since it was written: size or hash differ from the manifest")
    for name in sorted(found.keys() - listed.keys() - {MANIFEST_NAME}):
        yield Gap(what=name, why="not named in the manifest: added after it was written")
