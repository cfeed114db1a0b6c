"""Writes a bundle: redacted, hashed, all or nothing."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.bundle import limits
from analyzers.bundle.errors import os_error
from analyzers.bundle.learn import learn
from analyzers.bundle.names import fault_of
from analyzers.bundle.pack import pack, sync_folder
from analyzers.bundle.stage import Stage
from analyzers.contracts.bundle import (
    EVIDENCE_NAME,
    MANIFEST_NAME,
    NOT_REDACTED,
    REDACTED,
    BundleTool,
    Manifest,
)
from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.report import Gap, Host, Process
from analyzers.errors import UserError
from analyzers.privacy.redact import Redactor
from analyzers.version import __version__

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
ARCHIVE_SUFFIX = ".tar.zst"


@dataclass(frozen=True)
class ManifestParts:
    """What the caller knows about where a bundle comes from. ``created``: Unix seconds, now by default."""

    created: float | None = None
    host: Host = field(default_factory=Host)
    process: Process | None = None
    incarnations: Sequence[Incarnation] = ()
    gaps: Sequence[Gap] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)  # file name -> kind, where the caller knows better


def write_bundle(
    target: Path,
    parts: ManifestParts,
    files: Mapping[str, Path | bytes],
    evidence: Sequence[Evidence] = (),
    *,
    redactor: Redactor | None = None,
    include_private: bool = False,
    include_memory: bool = False,
    overwrite: bool = False,
) -> Manifest:
    """Write ``target``: an archive when its name ends in ``.tar.zst``, else a folder. Returns its manifest.

    ``files`` maps names inside the bundle to a path or to bytes. Text is redacted; cores and other binary
    files (programs apart) are left out with a gap that says so. ``include_private`` skips redaction and
    ``include_memory`` takes cores in; both are written into the manifest. The same input and ``created``
    give the same bytes. An existing ``target`` is replaced only with ``overwrite``, and a folder only if
    it is a bundle. Raises UserError, and leaves nothing behind, when a name is unfit or the disk is full.
    """
    _check_names(files)
    _check_target(target, overwrite)
    knowing = learn(redactor or Redactor(), parts.process, files, evidence, parts.kinds)
    with _errors(target), _beside(target) as folder:
        stage = Stage(folder / "bundle", None if include_private else knowing, include_memory)
        for name in sorted(files):
            stage.add(name, files[name], parts.kinds.get(name))
        if evidence:
            stage.add_evidence(evidence)
        manifest = _manifest(parts, stage, knowing, include_private)
        stage.put(MANIFEST_NAME, [manifest.to_json().encode("utf-8", "backslashreplace") + b"\n"])
        _publish(folder, target, manifest, overwrite)
    return manifest


def _check_names(files: Mapping[str, Path | bytes]) -> None:
    for name in files:
        fault = "is the bundle's own" if name in (MANIFEST_NAME, EVIDENCE_NAME) else fault_of(name)
        if fault:
            raise UserError(
                f"the name {fault}", where=repr(name), remedy="give the file another name in the bundle"
            )
    if len(files) > limits.MAX_FILES:
        raise UserError("too many files", where="bundle", remedy=f"put at most {limits.MAX_FILES} into one")


def _check_target(target: Path, overwrite: bool) -> None:
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise UserError(
            "it exists", where=str(target), remedy="choose another name, or allow it to be overwritten"
        )
    if target.is_symlink() or (target.is_dir() and not (target / MANIFEST_NAME).is_file()):
        raise UserError(
            "it is no bundle", where=str(target), remedy="choose another name; nothing was removed"
        )


@contextmanager
def _errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise os_error(error, str(target)) from error


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A private folder on the target's own file system, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name[:64]}.", suffix=".part", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _manifest(parts: ManifestParts, stage: Stage, redactor: Redactor, include_private: bool) -> Manifest:
    manifest = Manifest(
        tool=BundleTool(version=__version__),
        created=parts.created if parts.created is not None else time.time(),
        host=parts.host,
        process=parts.process,
        incarnations=tuple(parts.incarnations),
        redaction=NOT_REDACTED if include_private else REDACTED,
        memory=stage.memory,
        gaps=(*parts.gaps, *stage.gaps),
    )
    if not include_private:
        manifest = redactor.part(manifest, frozenset({"schema_", "redaction", "tool"}))
    return manifest.model_copy(update={"files": tuple(sorted(stage.files, key=lambda file: file.path))})


def _publish(folder: Path, target: Path, manifest: Manifest, overwrite: bool) -> None:
    """Give the finished bundle its name, in one step."""
    made = folder / "bundle"
    if target.name.endswith(ARCHIVE_SUFFIX):
        made = folder / "archive"
        pack(
            folder / "bundle", made, [MANIFEST_NAME, *(f.path for f in manifest.files)], manifest.created or 0
        )
    if overwrite and os.path.lexists(target):
        os.rename(target, folder / "old")  # removed with the folder, after the new one is in place
        try:
            _name(made, target)
        except OSError:
            os.rename(folder / "old", target)
            raise
    else:
        _name(made, target)
    sync_folder(target.parent)


def _name(made: Path, target: Path) -> None:
    if made.is_file():
        try:
            os.link(made, target)  # fails, where a rename would silently replace what came up meanwhile
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            return
    os.rename(made, target)
