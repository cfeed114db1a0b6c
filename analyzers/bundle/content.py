"""What a bundle may take in of a file: its kind, and its bytes after redaction."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from analyzers.bundle.limits import CHUNK
from analyzers.privacy.export import redact_export
from analyzers.privacy.redact import Redactor

SAMPLE = 64 * 1024  # bytes looked at to tell text from memory and archives
MAX_CONTROLS = (
    0.05  # share of control characters a text may have: colours and a torn block, not UTF-16 or code
)
MAX_SMALL = 4 * 1024 * 1024  # bytes of an environment or command line: the kernel allows 2 MiB for both
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\x1b")
_ELF = b"\x7fELF"
_ET_CORE = 4
_PROGRAM = frozenset({2, 3})  # ET_EXEC, ET_DYN
_BINARY_MAGIC = (
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0",
    b"BZh",
    b"PK\x03\x04",
    b"GGUF",
    b"LPKSHHRH",
    b"\x89PNG",
)


@dataclass(frozen=True)
class Look:
    """What a file is. ``form``: core, program, text, environ, cmdline, export or binary."""

    form: str
    kind: str


def look(sample: bytes, name: str, kind: str | None) -> Look:
    """What the first ``SAMPLE`` bytes, the name and a kind the caller knows say about a file."""
    form = _form(sample, name.rsplit("/", 1)[-1], kind)
    return Look(form, kind or {"export": "journal-export", "text": "text"}.get(form, form))


def _form(sample: bytes, base: str, kind: str | None) -> str:
    if sample[:4] == _ELF:
        type_ = sample[16] if len(sample) > 16 and sample[5] == 1 else 0
        return "program" if type_ in _PROGRAM else "core"
    if kind == "core":
        return "core"
    if kind in ("environ", "cmdline"):
        return kind
    if base in ("environ", "cmdline"):
        return base
    if sample.startswith(b"__CURSOR=") or kind == "journal-export":
        return "export"
    return "text" if is_text(sample) else "binary"


def is_text(sample: bytes) -> bool:
    """True for text in an ASCII superset, with a few broken bytes perhaps."""
    if sample.startswith(_BINARY_MAGIC):
        return False
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return controls <= len(sample) * MAX_CONTROLS


def redacted(file: BinaryIO, form: str, redactor: Redactor) -> Iterator[bytes]:
    """The bytes of ``file`` without secrets and client content, in pieces.

    Raises analyzers.privacy.export.NotAnExportError for a damaged export.
    """
    if form == "export":
        yield from redact_export(file, redactor)
    elif form in ("environ", "cmdline"):
        yield _small(file.read(MAX_SMALL), form, redactor)
    elif form == "text":
        with io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline="") as text:
            for piece in redactor.pieces(_pieces(text)):
                yield _encode(piece)
    else:
        yield from raw(file)


def raw(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of ``file`` as they are, in pieces."""
    while data := file.read(CHUNK):
        yield data


def _pieces(text: io.TextIOWrapper) -> Iterator[str]:
    while piece := text.read(CHUNK):
        yield piece


def _small(data: bytes, form: str, redactor: Redactor) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    if form == "environ":
        separator = "\0" if "\0" in text else "\n"
        return _encode(redactor.env_text(text, separator))
    end = "\0" if text.endswith("\0") else ""
    return _encode("\0".join(redactor.args(text.removesuffix("\0").split("\0"))) + end)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
