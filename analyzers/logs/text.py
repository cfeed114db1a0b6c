"""Raw bytes of a log line to text that is safe to match and safe to show."""

from __future__ import annotations

import re

MAX_LINE = 64 * 1024  # longest line the grammar looks at; the longest real one is a debug dump of a request
MAX_TEXT = 220  # longest evidence text: one terminal line and a bit, enough for every telling line
MAX_NAME = 200  # longest input name shown in a source

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)")
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def decode(raw: bytes) -> str:
    """A line as text: cut to MAX_LINE bytes, NUL and colours removed, trailing CR and LF gone.

    Invalid UTF-8 becomes U+FFFD; nothing is raised.
    """
    text = raw[:MAX_LINE].rstrip(b"\r\n").decode("utf-8", "replace")
    if "\x00" in text:
        text = text.replace("\x00", "")
    return _ANSI.sub("", text) if "\x1b" in text else text


def visible(text: str, limit: int = MAX_TEXT) -> str:
    """``text`` with control and direction-changing characters spelled out, at most ``limit`` characters."""
    shown = _UNSAFE.sub(_spell, text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _spell(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 9:
        return " "
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
