"""The export forms of a journal, taken apart into entries. Sizes are bounded; damage raises nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from analyzers.errors import UserError

FIELD_KEPT = 64 * 1024  # bytes kept of one field: journald's own limit for what it hands out
FIELD_LIMIT = 1 << 40  # a longer declared length is damage, not a field
LINE_LIMIT = 8 * 1024 * 1024  # bytes of one JSON entry or one text field that are read at once
FIELDS_KEPT = 256  # fields of one entry
CHUNK = 256 * 1024

_NAME = re.compile(rb"[A-Z0-9_]{1,64}")
_NEVER = frozenset({"COREDUMP_ENVIRON", "COREDUMP"})  # a whole environment, or a whole core
_DROPPED = re.compile(r"COREDUMP_(?:PROC_|OPEN_FDS|CMDLINE|CONTAINER_CMDLINE)")


@dataclass
class Entry:
    """One journal entry. ``number`` counts from 1; ``cut`` names fields that were longer than FIELD_KEPT."""

    number: int
    fields: dict[str, bytes] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    damaged: bool = False
    size: int = 0

    def text(self, name: str) -> str | None:
        """A field as text, or None."""
        value = self.fields.get(name)
        return None if value is None else value.decode("utf-8", "replace")

    def number_of(self, name: str) -> int | None:
        """A field as a non-negative whole number of at most 18 digits, or None."""
        value = self.fields.get(name, b"")
        return int(value) if value.isdigit() and len(value) <= 18 else None

    def put(self, name: str, value: bytes, cut: bool = False) -> None:
        """Keep a field, unless it may hold secrets or the entry is full. The first value of a name wins."""
        if name in _NEVER or _DROPPED.match(name) or name in self.fields or len(self.fields) >= FIELDS_KEPT:
            return
        self.fields[name] = value[:FIELD_KEPT]
        if cut or len(value) > FIELD_KEPT:
            self.cut.append(name)


def export_entries(handle: IO[bytes], name: str) -> Iterator[Entry]:
    """Entries of the export format: ``NAME=value`` lines, ``NAME`` LF length LF-less binary, empty line."""
    reader = _Reader(handle, name)
    entry = Entry(1)
    while (line := reader.line()) is not None:
        if line:
            _field(reader, entry, line)
        elif entry.fields or entry.damaged:
            yield entry
            entry = Entry(entry.number + 1)
        entry.size = reader.taken
    if entry.fields or entry.damaged:
        yield entry


def _field(reader: _Reader, entry: Entry, line: bytes) -> None:
    head, equals, value = line.partition(b"=")
    if not _NAME.fullmatch(head):
        entry.damaged = True
    elif equals:
        entry.put(head.decode(), value, reader.was_cut)
    else:
        _binary(reader, entry, head.decode())


def _binary(reader: _Reader, entry: Entry, name: str) -> None:
    size = int.from_bytes(reader.exactly(8), "little")
    if size > FIELD_LIMIT:
        entry.damaged = True
        return
    value = reader.exactly(min(size, FIELD_KEPT))
    reader.skip(size - len(value) if size > FIELD_KEPT else 0)
    if reader.exactly(1) != b"\n":
        entry.damaged = True
    entry.put(name, value, size > FIELD_KEPT)


class _Reader:
    """Lines and counted bytes from one stream, in flat memory."""

    def __init__(self, handle: IO[bytes], name: str) -> None:
        self._handle = handle
        self._name = name
        self._data = b""
        self._at = 0
        self.taken = 0
        self.was_cut = False

    def line(self) -> bytes | None:
        """The next line without LF, cut to FIELD_KEPT (``was_cut``); None at the end."""
        self.was_cut = False
        kept = b""
        while True:
            end = self._data.find(b"\n", self._at)
            part = self._data[self._at : end if end >= 0 else None]
            kept, self.was_cut = _grown(kept, part, self.was_cut)
            if end >= 0:
                self._at = end + 1
                return kept
            if not self._more():
                return kept if kept else None

    def exactly(self, size: int) -> bytes:
        """``size`` bytes, fewer only at the end of the stream."""
        parts = []
        while size > 0 and (self._at < len(self._data) or self._more()):
            part = self._data[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Let ``size`` bytes go by."""
        while size > 0 and (self._at < len(self._data) or self._more()):
            step = min(size, len(self._data) - self._at)
            self._at += step
            size -= step

    def _more(self) -> bool:
        try:
            self._data = self._handle.read(CHUNK) or b""
        except OSError as error:
            raise UserError(
                f"cannot be read ({error.strerror})",
                where=self._name,
                remedy="check the file and its storage",
            ) from error
        self._at = 0
        self.taken += len(self._data)
        return bool(self._data)


def _grown(kept: bytes, part: bytes, cut: bool) -> tuple[bytes, bool]:
    room = FIELD_KEPT + 80 - len(kept)
    return kept + part[: max(room, 0)], cut or len(part) > room


def json_entries(handle: IO[bytes], name: str) -> Iterator[Entry]:
    """Entries of the JSON forms: one object a line; pretty-printed ones are put together first."""
    number, kept, size = 1, bytearray(), 0
    for line in _json_lines(handle, name):
        size += len(line)
        text = line.strip(b"\x1e \t\r\n").removeprefix(b"data: ")
        inside = len(kept) > 0 or text == b"{"
        if len(kept) < LINE_LIMIT:
            kept += text
        if inside and not text.rstrip(b",").endswith(b"}"):
            continue
        entry = _json_entry(bytes(kept).rstrip(b","), number, size)
        kept.clear()
        if entry is not None:
            yield entry
            number += 1
    if kept:
        yield Entry(number, damaged=True, size=size)


def _json_lines(handle: IO[bytes], name: str) -> Iterator[bytes]:
    try:
        while line := handle.readline(LINE_LIMIT):
            if not line.endswith(b"\n") and len(line) == LINE_LIMIT:
                line += b"...cut"
                while (rest := handle.readline(LINE_LIMIT)) and not rest.endswith(b"\n"):
                    pass
            yield line
    except OSError as error:
        raise UserError(
            f"cannot be read ({error.strerror})", where=name, remedy="check the file and its storage"
        ) from error


def _json_entry(text: bytes, number: int, size: int) -> Entry | None:
    if text in (b"", b"[", b"]"):
        return None
    entry = Entry(number, size=size)
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        entry.damaged = True
        return entry
    for name, value in row.items():
        _json_field(entry, name, value)
    return entry


def _json_field(entry: Entry, name: str, value: object) -> None:
    """A string; null for a field left out because of its size; an array of bytes; or an array of values."""
    if not isinstance(name, str) or not _NAME.fullmatch(name.encode("utf-8", "replace")):
        return
    if value is None:
        entry.cut.append(name)
    elif isinstance(value, str):
        entry.put(name, value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, list) and value:
        _json_array(entry, name, value)


def _json_array(entry: Entry, name: str, value: list[object]) -> None:
    numbers = value[: FIELD_KEPT + 1]
    if all(isinstance(n, int) and 0 <= n < 256 for n in numbers):
        entry.put(name, bytes(n for n in numbers if isinstance(n, int)))
    else:
        _json_field(entry, name, value[0])
