"""Does a text hold a stack trace? A cheap look before the parser runs."""

from __future__ import annotations

import re

TRACE = re.compile(
    rb"^[^\n]{0,120}?(?:#\d{1,3}\s+(?:0x[0-9a-f]{4,16}|\w)|frame #\d{1,3}:|Stack trace of thread \d|"
    rb"Thread \d+ \(|Fatal Python error|[\w./-]+\(\S*\+0x[0-9a-f]+\) ?\[0x[0-9a-f]+\])",
    re.MULTILINE,
)


def looks_like_trace(text: bytes) -> bool:
    """True when some line looks like a stack frame or the head of a thread."""
    return TRACE.search(text) is not None
