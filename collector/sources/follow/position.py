"""Where a stream was: small JSON texts. One that was damaged is no position, never an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

_BOOT = re.compile(r"[0-9a-f]{32}")
MAX_CURSOR = 1 << 16  # bytes of a stored cursor; the longest real one is a few hundred


def encoded(fields: Mapping[str, Any]) -> str:
    """The text of a cursor."""
    return json.dumps(fields, separators=(",", ":"), sort_keys=True)


def decoded(text: str | None) -> dict[str, Any]:
    """The fields of a cursor; empty for anything that is none."""
    if not text or len(text) > MAX_CURSOR:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def number(fields: Mapping[str, Any], name: str) -> int | None:
    """A whole number that is not negative and that the kernel's 64 bits hold."""
    value = fields.get(name)
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return value if usable else None


@dataclass(frozen=True)
class JournalPosition:
    """The last entry that was read. ``cursor`` is journald's own; ``wall`` and ``mono`` its clocks in
    microseconds; ``boot`` 32 hexadecimal digits."""

    cursor: str
    wall: int
    mono: int
    boot: str

    def text(self) -> str:
        return encoded({"cursor": self.cursor, "wall": self.wall, "mono": self.mono, "boot": self.boot})

    @classmethod
    def of(cls, text: str | None) -> JournalPosition | None:
        """None for a text that is no position."""
        fields = decoded(text)
        cursor, boot = fields.get("cursor"), fields.get("boot")
        wall, mono = number(fields, "wall"), number(fields, "mono")
        if not isinstance(cursor, str) or not isinstance(boot, str) or wall is None or mono is None:
            return None
        if _BOOT.fullmatch(boot) is None:
            return None
        return cls(cursor, wall, mono, boot)

    def sequence(self) -> tuple[str, int] | None:
        """The journal's own numbering: (id of the numbering, number of the entry)."""
        return sequence_of(self.cursor)


def sequence_of(cursor: str) -> tuple[str, int] | None:
    """``s`` and ``i`` of a journald cursor (systemd: sd_journal_get_cursor)."""
    parts = dict(part.partition("=")[::2] for part in cursor.split(";"))
    try:
        return (parts["s"], int(parts["i"], 16))
    except (KeyError, ValueError):
        return None


def clock(wall: float) -> str:
    """Unix seconds for people, UTC."""
    try:
        return datetime.fromtimestamp(wall, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"second {wall:.0f}"
