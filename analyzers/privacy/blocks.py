"""Cuts a text of any length into blocks that can be redacted one by one: never inside something private."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analyzers.privacy.jsontext import has_private_key
from analyzers.privacy.late import Late
from analyzers.privacy.lines import record_end, starts_record
from analyzers.privacy.payload import has_phrase

BLOCK_SIZE = 256 * 1024  # characters worked on at once: memory stays flat and most rules can be skipped
# A record longer than this is cut there; real ones are bodies and prompts, the longest under a megabyte.
MAX_RECORD_SIZE = 2 * 1024 * 1024
MAX_LINES_BACK = 20_000  # lines looked at for a place to split; each costs a microsecond or two
CUT_NOTE = "\n«redacted: the rest of an over-long record»\n"
# A router prints a child's arguments one per line: the option and its value must stay in one block.
_DANGLING = Late(r"(?:--api-key|--hf-token|-hft)[ \t]*(?:\\n)?(?:\"[^\n]{0,200})?\r?\n\Z")
_REACH = 512  # characters before a split in which a dangling option is looked for, or a torn record start


def blocks(pieces: Iterable[str]) -> Iterator[str]:
    """Regroup a text, given in pieces of any size, into blocks that begin where a record begins.

    A record over ``MAX_RECORD_SIZE`` characters is cut there and its rest replaced by ``CUT_NOTE``: what a
    cut tears apart could no longer be recognised as private.
    """
    waiting, dropping = "", False
    for piece in _small(pieces):
        waiting += piece
        if len(waiting) < BLOCK_SIZE:
            continue
        if dropping:
            waiting, dropping = _after_cut(waiting)
        at = 0 if dropping else _split_at(waiting)
        if at > 0:
            yield waiting[:at]
            waiting = waiting[at:]
        elif len(waiting) > MAX_RECORD_SIZE:
            yield waiting[:MAX_RECORD_SIZE]
            yield CUT_NOTE
            waiting, dropping = waiting[MAX_RECORD_SIZE:], True
    if dropping:
        waiting, dropping = _after_cut(waiting)
    if waiting and not dropping:
        yield waiting


def _small(pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        for start in range(0, len(piece), BLOCK_SIZE):
            yield piece[start : start + BLOCK_SIZE]


def _after_cut(text: str) -> tuple[str, bool]:
    """(what follows the cut record, still inside it). Inside, only what may begin the next record is kept."""
    end = record_end(text, 0)
    if end < len(text):
        return text[end:].lstrip("\r\n"), False
    return text[-_REACH:], True


def _split_at(text: str) -> int:
    """The last offset at which the text may be cut in two; 0 when there is none."""
    if not has_phrase(text) and not has_private_key(text):
        return _last_line(text)
    line = len(text)
    for _ in range(MAX_LINES_BACK):
        line = text.rfind("\n", 0, line)
        if line < 0:
            return 0
        if starts_record(text, line + 1) and not _dangling(text, line + 1):
            return line + 1
    return 0


def _last_line(text: str) -> int:
    line = text.rfind("\n") + 1
    return 0 if _dangling(text, line) else line


def _dangling(text: str, line: int) -> bool:
    return _DANGLING.search(text[max(0, line - _REACH) : line]) is not None
