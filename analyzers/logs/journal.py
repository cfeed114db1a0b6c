"""Journal entries, exported by ``journalctl -o export`` or ``-o json``, to one Reading.

Trusted are the fields journald itself adds (they begin with ``_``; a client cannot set them):
``_TRANSPORT=kernel`` makes a kernel line, ``_PID=1`` with ``_TRANSPORT=journal`` and no user id but 0 makes
a systemd line. A core record (MESSAGE_ID of systemd-coredump, fields COREDUMP_*) can be sent by any user
through the journal socket: it is believed only when ``_UID`` is 0 and the sender is systemd-coredump by its
unit (``systemd-coredump@….service``) or by ``_COMM`` with ``_EXE`` in a system folder. Everything else is
a message line of the process ``_PID`` in boot ``_BOOT_ID``. COREDUMP_ENVIRON is dropped while reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from analyzers.logs.blocks import opened
from analyzers.logs.entries import Entry, export_entries, json_entries
from analyzers.logs.journal_lives import JournalLives
from analyzers.logs.reading import Reading
from analyzers.logs.text import MAX_NAME, visible

Source = Path | str | IO[bytes]


def read_export(source: Source, name: str | None = None) -> Reading:
    """Read ``journalctl -o export``. Binary fields are understood, long ones bounded (entries.FIELD_KEPT).

    Raises UserError when the source cannot be opened; a damaged entry is skipped and named in a gap.
    """
    shown = _shown(source, name)
    with opened(source, shown) as handle:
        return _read(export_entries(handle, shown), shown, "journal-export")


def read_json(source: Source, name: str | None = None) -> Reading:
    """Read ``journalctl -o json`` (also -pretty, -seq, -sse), byte arrays and nulls. Raises as above."""
    shown = _shown(source, name)
    with opened(source, shown) as handle:
        return _read(json_entries(handle, shown), shown, "journal-json")


def _shown(source: Source, name: str | None) -> str:
    path = isinstance(source, (str, os.PathLike))
    return visible(name or (Path(str(source)).name if path else "journal"), MAX_NAME)


def _read(entries: Iterator[Entry], name: str, kind: str) -> Reading:
    lives = JournalLives(name)
    for entry in entries:
        lives.feed(entry)
    return lives.finish(kind)


def trusted_fields(fields: Mapping[str, bytes]) -> dict[str, bytes]:
    """Only the fields journald set itself."""
    return {key: value for key, value in fields.items() if key.startswith("_")}
