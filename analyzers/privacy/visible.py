"""Makes invisible and terminal-active characters readable. Every renderer passes its strings through here."""

from __future__ import annotations

import unicodedata

# Controls, formats (bidi, zero-width, tags, soft hyphen), line and paragraph separators, lone surrogates.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Letters that draw nothing: Hangul fillers, Khmer inherent vowels, blank Braille cell, grapheme joiner.
_HIDDEN = frozenset("\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800\u034f")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


class _Table(dict[int, str]):
    """Filled as characters are met: few of a million code points occur in one report."""

    def __missing__(self, code: int) -> str:
        shown = _shown(chr(code))
        self[code] = shown
        return shown


def _shown(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char not in _HIDDEN and unicodedata.category(char) not in _HIDDEN_CATEGORIES:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_TABLE = _Table()


def visible(text: str, *, keep_newlines: bool = False) -> str:
    """``text`` with controls, escapes, bidi and zero-width marks written as ``\\x1b``, ``\\u202e``, ``\\n`` …

    ``keep_newlines`` leaves ``\\n`` alone, for texts that are shown over several lines; nothing else passes.
    """
    if keep_newlines:
        return "\n".join(line.translate(_TABLE) for line in text.split("\n"))
    return text.translate(_TABLE)
