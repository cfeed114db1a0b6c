"""A pasted issue body taken apart: fenced and <pre> blocks, the prose around them, quote marks and all.

A server's own log can hold fences too, inside a client's prompt. So a text with lines of the server's logger
outside its blocks is no issue: taken apart, a prompt's block would pass for a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from analyzers.logs.grammar import parse_line
from analyzers.logs.looks import STRUCTURED
from analyzers.logs.prefix import strip
from analyzers.logs.text import decode

MAX_ISSUE = 2 << 20  # bytes; a body has at most 64 KiB, a saved thread of many comments some hundreds
MAX_LINES = 60_000
MAX_BLOCKS = 200
LINE_BYTES = 16 << 10
HEADINGS = 2  # of an issue template; one stands above many a section of other texts

_QUOTE = re.compile(r"(?: {0,3}> ?){1,6}")
_FENCE = re.compile(r" {0,12}(?P<mark>`{3,16}|~{3,16})(?P<info>[^`]{0,200})$")
_OPEN_TAG = re.compile(r"\s{0,12}<(?:pre|code)\b[^>]{0,200}>", re.IGNORECASE)
_CLOSE_TAG = re.compile(r"</(?:pre|code)>\s{0,8}$", re.IGNORECASE)
_TAG_LINE = re.compile(r"\s{0,12}</?(?:details|summary|p|br|sub|kbd)\b[^>]{0,200}/?>", re.IGNORECASE)
_HEADING = re.compile(
    r"#{2,4} (?:name and version|operating systems?|which llama\.cpp modules|command line|ggml backends"
    r"|hardware|models?|problem description|first bad commit|relevant log output|what happened"
    r"|steps to reproduce|environment|version|logs?|stack ?trace|backtrace)\b",
    re.IGNORECASE,
)


@dataclass
class Block:
    """A fenced block, or with ``fenced`` False the prose between two; ``first`` is its first line."""

    first: int
    fenced: bool = False
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


def looks_like_issue(head: bytes) -> bool:
    """True when the text has an issue's blocks or headings, and no logger's line stands outside them."""
    if not any(sign in head for sign in (b"```", b"~~~", b"<details", b"<pre", b"# ")):
        return False
    found = blocks(head)
    prose = [line for block in found if not block.fenced for line in block.lines]
    headed = len({line for line in prose if _HEADING.match(line)}) >= HEADINGS
    return (headed or any(block.fenced for block in found)) and is_issue(found)


def is_issue(found: list[Block]) -> bool:
    """False when a line outside the blocks is one that the server's logger writes."""
    return not any(_is_loggers(line) for block in found if not block.fenced for line in block.lines)


def _is_loggers(line: str) -> bool:
    parsed = parse_line(strip(line)[1])
    return parsed is not None and bool(
        parsed.component or parsed.elapsed is not None or parsed.era in STRUCTURED
    )


def blocks(data: bytes) -> list[Block]:
    """Prose and fenced blocks in turn. A block that is never closed reaches to the end."""
    found = [Block(1)]
    closing: _Closing | None = None
    for number, line in _lines(data):
        bare = _unquoted(line, closing.quotes if closing else None)
        if closing is not None:
            closing = _inside(closing, bare, found, number)
            continue
        closing = _opens(line, bare)
        if closing is not None and len(found) < MAX_BLOCKS:
            found.append(Block(number + 1, True, [closing.rest] if closing.rest else []))
            if closing.over:
                closing = None
                found.append(Block(number + 1))
        else:
            closing = None
            found[-1].lines.append("" if _TAG_LINE.match(bare) else bare)
    return [block for block in found if any(line.strip() for line in block.lines)]


@dataclass(frozen=True)
class _Closing:
    """What ends the block, how many quote marks stand before its lines, what stood behind its opening tag."""

    mark: str
    quotes: int
    rest: str = ""
    over: bool = False


def _inside(closing: _Closing, line: str, found: list[Block], number: int) -> _Closing | None:
    fence = _FENCE.match(line) if closing.mark else None
    if fence and fence["mark"].startswith(closing.mark) and not fence["info"].strip():
        found.append(Block(number + 1))
        return None
    tag = None if closing.mark else _CLOSE_TAG.search(line)
    found[-1].lines.append(_plain(line[: tag.start()]) if tag else line if closing.mark else _plain(line))
    if tag:
        found.append(Block(number + 1))
        return None
    return closing


def _opens(line: str, bare: str) -> _Closing | None:
    quotes = line[: len(line) - len(bare)].count(">")
    fence = _FENCE.match(bare)
    if fence:
        return _Closing(fence["mark"], quotes)
    tag = _OPEN_TAG.match(bare)
    if tag is None:
        return None
    rest = bare[tag.end() :]
    inner = _OPEN_TAG.match(rest)  # <pre><code>
    rest = rest[inner.end() :] if inner else rest
    end = _CLOSE_TAG.search(rest)
    return _Closing("", quotes, _plain(rest[: end.start()] if end else rest), end is not None)


def _plain(text: str) -> str:
    from html import unescape

    return unescape(re.sub(r"</?(?:pre|code)>", "", text))


def _unquoted(line: str, most: int | None) -> str:
    """The line without its quote marks; inside a block only as many go as stood before its fence."""
    match = _QUOTE.match(line)
    if match is None or most == 0:
        return line
    if most is None:
        return line[match.end() :]
    return re.sub(rf"^(?: {{0,3}}> ?){{1,{most}}}", "", line)


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(data[:MAX_ISSUE].split(b"\n", MAX_LINES)[:MAX_LINES], 1):
        yield number, decode(raw[:LINE_BYTES])
