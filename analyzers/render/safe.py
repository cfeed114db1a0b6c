"""Makes foreign text safe to show: nothing in a report can move a cursor, hide or reorder text.

A report is made of logs, cores and file names that an attacker may have written, and reports travel:
what reads one cannot count on its writer having cleaned it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from html import escape
from typing import Any

MAX_LINE = 2000  # characters of one shown text; the longest real demangled name seen is about 900
MAX_BLOCK = 4_000_000  # characters of a raw block in a page: browsers stay quick up to a few megabytes
BREAKS = re.compile(r"\r\n|[\n\r\t\v\f\x1c-\x1f\x85\u2028\u2029]")
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, format and bidi marks, lone surrogates
DIRECTORY = re.compile(r"(?<![\w./:<])~?/(?:[^\s/'\"`<>|;,()]+/)+(?=[^\s/])")
ADDRESS = re.compile(r"\b(?!127\.)(?!0\.0\.0\.0\b)(?:\d{1,3}\.){3}\d{1,3}\b")
HOST = re.compile(r"(?<=://)(?!127\.|localhost\b|github\.com\b)[^\s/:'\"<>]+")


def clean(text: object, limit: int = MAX_LINE) -> str:
    """One line of visible characters; hidden ones become their escapes, overlong text is cut and says so."""
    raw = str(text)
    kept = BREAKS.sub(" ", raw[:limit])
    if not kept.isascii() or not kept.isprintable():
        kept = "".join(_shown(character) for character in kept)
    return kept if len(raw) <= limit else f"{kept} [cut, {len(raw) - limit} more characters]"


def clean_lines(text: object) -> list[str]:
    """Like ``clean``, but line breaks are kept: one entry a line."""
    return [clean(line) for line in str(text).splitlines()] or [""]


def _shown(character: str) -> str:
    if unicodedata.category(character) not in HIDDEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encodable(text: str, encoding: str) -> str:
    """``text`` with what ``encoding`` lacks written as escapes."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def markup(text: object, limit: int = MAX_LINE) -> str:
    """Clean text for HTML and SVG, content or double-quoted attribute."""
    return escape(clean(text, limit), quote=True)


def impersonal(text: object) -> str:
    """Clean text for a public place: directories shortened, addresses and host names replaced."""
    shown = DIRECTORY.sub("…/", clean(text))
    return HOST.sub("[host]", ADDRESS.sub("[address]", shown))


def raw_json(value: Any) -> str:
    """Indented ASCII JSON: lossless, and hidden characters stand as JSON escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=True, default=str)
    if len(text) <= MAX_BLOCK:
        return text
    return f"{text[:MAX_BLOCK]}\n[cut here; the --json output has the whole report]"
