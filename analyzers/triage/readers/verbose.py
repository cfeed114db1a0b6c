"""``journalctl -o verbose``: every field of an entry, one a line below a line with its stamp and cursor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import IO

from analyzers.logs.entries import FIELD_KEPT, LINE_LIMIT, Entry
from analyzers.logs.journal_lives import JournalLives
from analyzers.logs.reading import Reading

_HEAD = re.compile(
    rb"^\S{1,12} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \S{1,10} \[(?P<cursor>s=[0-9a-f]{1,32};[^\]]{1,200})\]"
)
_FIELD = re.compile(rb"^    (?P<name>[A-Z_][A-Z0-9_]{0,63})=(?P<value>.*)$", re.DOTALL)
# A value's further lines stand below its first character, so never as far left as a field's name: a client's
# field cannot pass for one of the journal's own.
_MORE = b" " * 6
_CURSOR = re.compile(rb"(?:^|;)(?P<key>[bmt])=(?P<value>[0-9a-f]{1,32})")


def read_verbose(file: IO[bytes], name: str) -> Reading:
    """The entries, read as any journal's: its own fields are in the listing. Raises OSError."""
    lives = JournalLives(name)
    for entry in verbose_entries(iter(lambda: file.readline(LINE_LIMIT), b"")):
        lives.feed(entry)
    return lives.finish("journal-verbose")


def verbose_entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    """Entries in the order of the text; what stands before the first is let go."""
    entry: Entry | None = None
    last = ""
    size = 0
    for raw in lines:
        size += len(raw)
        line = raw.rstrip(b"\r\n")
        head = _HEAD.match(line)
        if head is not None:
            if entry is not None:
                yield entry
            entry, last = _begun(head["cursor"], entry.number + 1 if entry else 1), ""
        elif entry is not None:
            last = _add(entry, line, last)
        if entry is not None:
            entry.size = size
    if entry is not None:
        yield entry


def _begun(cursor: bytes, number: int) -> Entry:
    """Boot and both clocks stand in the cursor, hexadecimal, times in microseconds."""
    entry = Entry(number)
    told = {match["key"]: match["value"] for match in _CURSOR.finditer(cursor)}
    if b"b" in told:
        entry.put("_BOOT_ID", told[b"b"])
    for key, name in ((b"t", "__REALTIME_TIMESTAMP"), (b"m", "__MONOTONIC_TIMESTAMP")):
        if key in told:
            entry.put(name, str(int(told[key], 16)).encode())
    return entry


def _add(entry: Entry, line: bytes, last: str) -> str:
    """Keep a field, or a further line of the last one; the name of the field that is open."""
    field = _FIELD.match(line)
    if field is not None:
        entry.put(field["name"].decode(), field["value"])
        return field["name"].decode()
    if line.startswith(_MORE) and len(entry.fields.get(last, b"")) in range(1, FIELD_KEPT):
        entry.fields[last] += b"\n" + line.strip()
    return last
