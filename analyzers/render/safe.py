"""Makes foreign text safe to show: nothing in a report can move a cursor, hide or reorder text.

A report is made of logs, cores and file names that an attacker may have written, and reports travel:
what reads one cannot count on its writer having cleaned it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from analyzers.privacy.network import redact_network
from analyzers.privacy.visible import visible

MAX_LINE = 2000  # characters of one shown text; the longest real demangled name seen is about 900
MAX_BLOCK = 4_000_000  # characters of a raw block in a page: browsers stay quick up to a few megabytes
BREAKS = re.compile(r"\r\n|[\n\r\t\v\f\x1c-\x1f\x85\u2028\u2029]")
ROUTES = ("/v1/", "/v2/", "/api/")  # the server's own routes are no directories
METHOD = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) $")
HOME = re.compile(r"(?:/(?:home|Users)/|[A-Za-z]:\\+Users\\+)[^/\\\n'\"`<>|]+")
DIRECTORY = re.compile(r"(?<![\w./:<…])~?/(?:[^\s/'\"`<>|;,()]+/)+(?=[^\s/])")
# Private IPv4 networks (RFC 1918); a blank and a level letter behind tell a log stamp from an address.
LAN = re.compile(
    r"\b(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}\b(?! [A-Z] )(?!\.\d)"
)
HOST = re.compile(r"(?<=://)(?!127\.|localhost\b|github\.com\b)[^\s/:'\"<>]+")


def clean(text: object, limit: int = MAX_LINE) -> str:
    """One line of visible characters; hidden ones become their escapes, overlong text is cut and says so."""
    raw = str(text)
    kept = visible(BREAKS.sub(" ", raw[:limit]))
    return kept if len(raw) <= limit else f"{kept} [cut, {len(raw) - limit} more characters]"


def clean_lines(text: object) -> list[str]:
    """Like ``clean``, but newlines are kept: one entry a line. No other break makes one."""
    return [clean(line) for line in str(text).split("\n")]


def encodable(text: str, encoding: str) -> str:
    """``text`` with what ``encoding`` lacks written as escapes."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def markup(text: object, limit: int = MAX_LINE) -> str:
    """Clean text for HTML and SVG, content or double-quoted attribute."""
    from html import escape  # brings a table of 2,000 entities, which a terminal does without

    return escape(clean(text, limit), quote=True)


def impersonal(text: object) -> str:
    """Clean text for a public place: directories shortened, addresses, mails and host names replaced."""
    shown = DIRECTORY.sub(_directory, HOME.sub("…", redact_network(clean(text))))
    return HOST.sub("[host]", LAN.sub("[address]", shown))


def _directory(found: re.Match[str]) -> str:
    route = found[0].startswith(ROUTES) or METHOD.search(found.string[: found.start()][-9:])
    return found[0] if route else "…/"


def raw_json(value: Any) -> str:
    """Indented ASCII JSON: lossless, and hidden characters stand as JSON escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=True, default=str)
    if len(text) <= MAX_BLOCK:
        return text
    return f"{text[:MAX_BLOCK]}\n[cut here; the --json output has the whole report]"
