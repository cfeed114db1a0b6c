"""Wall-clock stamps as tools print them, where they name their zone."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from analyzers.logs.prefix import iso_seconds

# `Wed 2026-12-02 04:55:55 UTC`: only UTC is the same zone everywhere; CET and IST are not.
_SYSTEMD = re.compile(r"(?:[^\W\d_]{1,12}\.? )?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{1,9})? (?:UTC|GMT)\b")


def wall_seconds(text: str) -> float | None:
    """Unix seconds; None without a zone that is plain, and for what is no stamp."""
    text = text.strip()
    match = _SYSTEMD.match(text)
    if match is None:
        return iso_seconds(text)
    try:
        whole = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
        return whole.timestamp() + float(match[2] or 0)
    except (ValueError, OverflowError):
        return None
