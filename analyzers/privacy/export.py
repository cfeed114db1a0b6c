"""Redacts a journal in export format, whose binary fields carry their size: taken apart and put together.

Format: https://systemd.io/JOURNAL_EXPORT_FORMATS ("NAME=text" lines, or NAME, a little-endian 64-bit size and
that many bytes; an empty line between entries).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from analyzers.privacy.redact import MARKER, Redactor

MAX_NAME = 256  # bytes; journald allows 64 for a field's name
MAX_FIELD = 2 * 1024 * 1024  # bytes kept of a field; longer ones (a core stored in the journal) are taken out
_ENVIRONMENT = frozenset({b"COREDUMP_ENVIRON"})
# Memory of the dead process, or addresses of it, in binary form.
_MEMORY = frozenset({b"COREDUMP"})
_MARKER = MARKER.encode()


class NotAnExportError(ValueError):
    """The bytes do not follow the format."""


def redact_export(stream: BinaryIO, redactor: Redactor) -> Iterator[bytes]:
    """The entries of ``stream`` with every value redacted, in flat memory. Raises NotAnExportError."""
    while line := stream.readline(MAX_FIELD):
        name, joint, value = line.rstrip(b"\n").partition(b"=")
        if joint or not name:
            yield _field(name, value, redactor) if joint else b"\n"
            _skip_line(stream, line)
        else:
            yield _field(name, _binary(stream, name), redactor)


def _skip_line(stream: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = stream.readline(MAX_FIELD)


def _binary(stream: BinaryIO, name: bytes) -> bytes:
    header = stream.read(8)
    if len(name) > MAX_NAME or len(header) < 8:
        raise NotAnExportError(f"field {name[:40]!r} has no size")
    size = struct.unpack("<Q", header)[0]
    value = stream.read(min(size, MAX_FIELD))
    left = size - len(value)
    while left > 0 and (dropped := stream.read(min(left, MAX_FIELD))):
        left -= len(dropped)
    if left > 0 or stream.read(1) != b"\n":
        raise NotAnExportError(f"field {name[:40]!r} is cut")
    return value if size <= MAX_FIELD else _MARKER


def _field(name: bytes, value: bytes, redactor: Redactor) -> bytes:
    cleaned = _value(name, value, redactor)
    if b"\n" in cleaned or not _is_text(cleaned):
        return name + b"\n" + struct.pack("<Q", len(cleaned)) + cleaned + b"\n"
    return name + b"=" + cleaned + b"\n"


def _value(name: bytes, value: bytes, redactor: Redactor) -> bytes:
    if name in _MEMORY:
        return _MARKER
    text = value.decode("utf-8", "surrogateescape")
    cleaned = redactor.env_text(text, "\n") if name in _ENVIRONMENT else redactor.text(text)
    return cleaned.encode("utf-8", "surrogateescape")


def _is_text(value: bytes) -> bool:
    """What journald writes behind "=": UTF-8 without control characters other than the tab."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return all(char >= " " or char == "\t" for char in text)
