"""The folder in which a bundle is put together before it gets its name."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from analyzers.bundle.content import SAMPLE, Look, look, raw, redacted
from analyzers.bundle.pack import make_folders, sync_folder
from analyzers.contracts.bundle import EVIDENCE_NAME, BundleFile
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap
from analyzers.privacy.export import NotAnExportError
from analyzers.privacy.redact import Redactor

_WITHOUT_MEMORY = "left out: it holds memory of a process, and memory holds keys and prompts"
_WITHOUT_BINARY = "left out: it is not text, so what is private in it could not be taken out"


class Stage:
    """Takes files in one by one and remembers what came in (``files``) and what did not (``gaps``)."""

    def __init__(self, root: Path, redactor: Redactor | None, include_memory: bool) -> None:
        root.mkdir(mode=0o700)
        self._root, self._redactor, self._include_memory = root, redactor, include_memory
        self.files: list[BundleFile] = []
        self.gaps: list[Gap] = []
        self.memory = False

    def add(self, name: str, source: Path | bytes, kind: str | None = None) -> None:
        """Take a file in as redaction allows, or note why not. Raises OSError when it cannot be written."""
        try:
            file = io.BytesIO(source) if isinstance(source, bytes) else _open(source)
        except OSError as error:
            self._gap(name, f"left out: {os.strerror(error.errno).lower() if error.errno else error}")
            return
        with file:
            what = look(file.read(SAMPLE), name, kind)
            file.seek(0)
            self._take(name, file, what)

    def _take(self, name: str, file: BinaryIO, what: Look) -> None:
        if what.form == "core" and not self._include_memory:
            self._gap(name, _WITHOUT_MEMORY, "collect --with-core, or capture bundle --include-private")
        elif what.form == "binary" and self._redactor is not None:
            self._gap(name, _WITHOUT_BINARY, "--include-private")
        else:
            self._copy(name, file, what)

    def _copy(self, name: str, file: BinaryIO, what: Look) -> None:
        pieces = raw(file) if self._redactor is None else redacted(file, what.form, self._redactor)
        try:
            size, digest = self.put(name, pieces)
        except NotAnExportError as error:
            (self._root / name).unlink()
            self._gap(name, f"left out: it is no journal export ({error})")
            return
        self.memory = self.memory or what.form == "core"
        self.files.append(BundleFile(path=name, kind=what.kind, size=size, sha256=digest))

    def add_evidence(self, evidence: Sequence[Evidence]) -> None:
        """Write ``evidence.jsonl``."""
        clean = evidence if self._redactor is None else map(self._redactor.evidence, evidence)
        lines = (
            fact.model_dump_json(by_alias=True).encode("utf-8", "backslashreplace") + b"\n" for fact in clean
        )
        size, digest = self.put(EVIDENCE_NAME, lines)
        self.files.append(BundleFile(path=EVIDENCE_NAME, kind="evidence", size=size, sha256=digest))

    def put(self, name: str, pieces: Iterable[bytes]) -> tuple[int, str]:
        """Write a file through to the disk; its size in bytes and its SHA-256."""
        path = make_folders(self._root, name)
        digest, size = hashlib.sha256(), 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                digest.update(piece)
                size += file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
        return size, digest.hexdigest()

    def _gap(self, name: str, why: str, option: str | None = None) -> None:
        self.gaps.append(Gap(what=name, why=why, command=option))


def _open(path: Path) -> BinaryIO:
    if not path.is_file():
        raise OSError(f"{path.name} is no regular file" if path.exists() else f"{path.name} does not exist")
    return path.open("rb")
