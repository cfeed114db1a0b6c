"""JSON inside text: finds the values of private keys and the end of a JSON value, without parsing it all.

Log lines carry JSON whole, cut, or as a string inside other JSON. ``level`` says how often a text was
encoded: at level 0 a quote is ``"``, at level 1 ``\\"``, at level 2 ``\\\\\\"``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from analyzers.privacy.late import Late
from analyzers.privacy.lines import record_end
from analyzers.privacy.names import PRIVATE_JSON_KEYS, SECRET_JSON_KEYS
from analyzers.privacy.patterns import MARKER, MARKERS

MAX_LEVEL = 4  # encodings inside each other that are followed; real logs show two
_KEYS = "|".join(sorted(map(re.escape, PRIVATE_JSON_KEYS + SECRET_JSON_KEYS), key=len, reverse=True))
_KEY = Late(r"\"(?:" + _KEYS + r")(\\*)\"[ \t]*:\s{0,64}")
_MARK = Late(r"(?<!\\)(\\*)([\"\[\]{}])")
_OPEN, _CLOSE = "[{", "]}"


class End(NamedTuple):
    """Where a value ends (offset behind it) and whether its own end mark was found there."""

    offset: int
    closed: bool


def level_of(backslashes: int) -> int | None:
    """The level at which a quote is written behind so many backslashes; None when no level writes it so."""
    level = (backslashes + 1).bit_length() - 1
    return level if backslashes + 1 == 1 << level and level <= MAX_LEVEL else None


def value_end(text: str, start: int, level: int, limit: int) -> End:
    """The end of the string, array or object that begins at ``start`` (at its first backslash, if any).

    A value that is cut ends at ``limit`` (the end of its record), or where the string around it ends.
    """
    depth, in_string = 0, False
    for mark in _MARK.finditer(text, start, limit):
        backslashes, sign = len(mark.group(1)), mark.group(2)
        if sign == '"':
            if backslashes < (1 << level) - 1:
                return End(mark.start(), False)
            if backslashes % (2 << level) != (1 << level) - 1:
                continue
            in_string = not in_string
        elif not in_string:
            depth += (sign in _OPEN) - (sign in _CLOSE)
        if depth <= 0 and not in_string:
            return End(mark.end(), True)
    return End(limit, False)


def has_private_key(text: str) -> bool:
    """True when a private JSON key stands in ``text``: its value may go on for many lines."""
    return _KEY.search(text) is not None


def redact_json_values(text: str) -> str:
    """Put the marker in place of what stands under a private or secret key; all else stays byte for byte."""
    if '"' not in text:
        return text
    done, at, limit, out = 0, 0, 0, list[str]()
    while key := _KEY.search(text, at):
        at = key.end()
        limit = limit if at < limit else record_end(text, at)
        found = _replacement(text, key, limit)
        if found is not None:
            at, marker = found
            out += [text[done : key.end()], marker]
            done = at
    return "".join([*out, text[done:]]) if out else text


def _backslashes_before(text: str, at: int) -> int:
    lowest = max(0, at - (1 << MAX_LEVEL))
    return at - lowest - len(text[lowest:at].rstrip("\\"))


def _replacement(text: str, key: re.Match[str], limit: int) -> tuple[int, str] | None:
    """(offset behind the value, what to write instead), or None when the value may stay."""
    slashes, start = key.group(1), key.end()
    level = level_of(len(slashes))
    if level is None or _backslashes_before(text, key.start()) != len(slashes):
        return None
    quote = slashes + '"'
    if text.startswith(quote, start):
        body = start + len(quote)
        if text.startswith((quote, *MARKERS), body):
            return None
        end = value_end(text, start, level, limit)
        return end.offset, quote + MARKER + (quote if end.closed else "")
    if text.startswith(("[", "{"), start) and not text.startswith(("[]", "{}"), start):
        return value_end(text, start, level, limit).offset, quote + MARKER + quote
    return None
