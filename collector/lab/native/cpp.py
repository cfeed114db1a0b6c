"""Finds declarations in C++ source by their names and braces, without parsing C++.

Comments and literals are blanked first (same length, line ends kept), so that neither a brace in a string
nor a declaration in a comment is ever taken for the real one, and every offset is one of the original text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_IGNORED = re.compile(
    r"//(?:\\\n|[^\n])*"
    r"|/\*.*?\*/"
    r'|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![\w'])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_PAIRS = {"{": "}", "(": ")"}
# What may stand between a parameter list and the body: specifiers, a return type, an initialiser list.
_BEFORE_BODY = re.compile(r"[\w\s:,&<>*\-]")


@dataclass(frozen=True)
class Span:
    """Part of a text: offsets of its first character and of the one after its last."""

    start: int
    end: int


def masked(text: str) -> str:
    """``text`` with comments, strings and character literals blanked."""
    return _IGNORED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def closing(text: str, opening: int) -> int | None:
    """Offset of what closes the brace or parenthesis at ``opening`` of a masked text, or None."""
    opener = text[opening]
    closer = _PAIRS[opener]
    depth = 0
    for found in re.compile(f"[{re.escape(opener + closer)}]").finditer(text, opening):
        depth += 1 if found.group() == opener else -1
        if depth == 0:
            return found.start()
    return None


def bodies(text: str, step: str, within: Span) -> list[Span]:
    """Every body inside ``within`` that ``step`` names, braces excluded.

    A step is ``struct NAME``, ``function NAME`` (qualified as in the source) or ``lambda NAME`` (the variable
    that holds it). Raises ValueError for another kind.
    """
    kind, _, name = step.partition(" ")
    finder = _FINDERS.get(kind)
    if finder is None or not name:
        raise ValueError(f"not a step: {step}")
    openings = finder(text, name, within)
    return [Span(at + 1, end) for at in openings if (end := closing(text, at)) is not None]


def _structs(text: str, name: str, within: Span) -> list[int]:
    found = re.compile(rf"\b(?:struct|class)\s+{re.escape(name)}\b[^;{{}}()]*\{{")
    return [match.end() - 1 for match in found.finditer(text, within.start, within.end)]


def _functions(text: str, name: str, within: Span) -> list[int]:
    found = re.compile(rf"(?<![\w:~.>]){re.escape(name)}\s*\(")
    starts = [match.end() - 1 for match in found.finditer(text, within.start, within.end)]
    return [at for start in starts if (at := _body_after(text, start)) is not None]


def _lambdas(text: str, name: str, within: Span) -> list[int]:
    found = re.compile(rf"\b{re.escape(name)}\s*=\s*\[[^\]]*\]\s*(?:\([^()]*\))?[^;{{}}=]*\{{")
    return [match.end() - 1 for match in found.finditer(text, within.start, within.end)]


def _body_after(text: str, parameters: int) -> int | None:
    """The brace that opens the body after a parameter list, or None for a declaration or a call."""
    end = closing(text, parameters)
    at = len(text) if end is None else end + 1
    while at < len(text):
        if text[at] == "{":
            return at
        if text[at] == "(":
            inner = closing(text, at)
            at = len(text) if inner is None else inner
        elif not _BEFORE_BODY.match(text[at]):
            return None
        at += 1
    return None


_FINDERS = {"struct": _structs, "function": _functions, "lambda": _lambdas}
