"""Where a new record begins in a text that mixes log lines with what clients sent.

A prompt or body printed raw has no end mark. It is taken to end where a line begins that only the server,
the C library, the kernel or a debugger writes: that keeps the telling lines that follow a prompt. The price
is that a prompt which quotes such a line raw, after a line break of its own, is taken out up to there only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# Wrappers put at most a date, a host, a program and a PID before a line; longer prefixes are prompt text.
_WRAPPER = (
    r"(?:[^\n]{0,100}?(?:\| |\]: |std(?:out|err) [FP] "
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ))?? {0,4}(?:\[ *\d{1,5}\] )?"
)
_ANSI = r"(?:\x1b\[[\d;]{0,20}m)*"
_TELLING = "|".join(
    (
        r"\d{1,9}\.\d\d\.\d{3}\.\d{3} [A-Z] ",  # F4, F5
        r"(?:srv|slot|que|res|cmn) {1,12}[\w~:()]{1,32}: ",  # F3
        r"(?:INFO|WARN|ERR|ERROR|VERB|DEBUG) {1,4}\[",  # F2
        r'\{"(?:type":"log|function|level|tid|timestamp|time|ts|msg)"',  # F1, F6 and shippers
        r"(?:main|print_info|load|(?:load|ggml|llama|common|clip)_\w{1,48})\b[^\n:]{0,16}: ",
        r"cmd_child_to_router:",
        r"[\w./+-]{1,200}:\d{1,6}: ",  # file:line: of a GGML_ASSERT or GGML_ABORT
        r"GGML_(?:ASSERT|ABORT)\b",
        r"CUDA error",
        r"terminate called",
        r" {1,4}what\(\): ",
        r"(?:Segmentation fault|Aborted|Bus error|Illegal instruction|Killed|Trace/breakpoint trap)\b",
        r"(?:double free or corruption|(?:malloc|free|munmap_chunk)\(\): |corrupted |\*\*\* stack smashing)",
        r"\[ *\d{1,9}\.\d{6}\] ",  # kernel
        r"#\d{1,6} ",  # a frame
        r"(?:\[New LWP|\[Thread debugging|Thread \d|TID \d|PID \d|Program terminated|Core was generated)",
    )
)
# A router prints a child's arguments one per line: the option and its value must stay in one block.
_DANGLING = re.compile(r"(?:--api-key|--hf-token|-hft)[ \t]*\r?\n\Z")
_DANGLING_REACH = 64  # characters before a split in which a dangling option is looked for
RECORD_START = re.compile(r"(?:(?<=\n)|\A)(?=" + _ANSI + _WRAPPER + _ANSI + "(?:" + _TELLING + "))")
_NEXT_RECORD = re.compile(r"\r?\n(?=" + _ANSI + _WRAPPER + _ANSI + "(?:" + _TELLING + "))")

BLOCK_SIZE = 256 * 1024  # characters worked on at once: keeps memory flat and lets most rules be skipped
MAX_RECORD_SIZE = 8 * 1024 * 1024  # a record longer than this is cut: no telling line is anywhere near it
CUT_NOTE = "«redacted: the rest of an over-long record»\n"


def record_end(text: str, start: int) -> int:
    """Offset of the line break that ends the record around ``start``; the text's length without one."""
    found = _NEXT_RECORD.search(text, start)
    return found.start() if found else len(text)


def blocks(pieces: Iterable[str]) -> Iterator[str]:
    """Regroup a text, given in pieces of any size, into blocks that begin where a record begins.

    A record over ``MAX_RECORD_SIZE`` characters is cut there and its rest replaced by ``CUT_NOTE``: what
    a cut tears apart could no longer be recognised as private.
    """
    waiting = ""
    dropping = False
    for piece in pieces:
        waiting += piece
        if len(waiting) < BLOCK_SIZE:
            continue
        at = _last_record_start(waiting)
        if at > 0:
            yield from _block(waiting[:at], dropping)
            waiting, dropping = waiting[at:], False
        elif len(waiting) > MAX_RECORD_SIZE:
            yield from _block(waiting[:MAX_RECORD_SIZE], dropping)
            waiting, dropping = waiting[-BLOCK_SIZE:], True
    yield from _block(waiting, dropping)


def _block(text: str, dropping: bool) -> Iterator[str]:
    """One block, or only what follows the first record start when its beginning was torn off."""
    if not dropping:
        if text:
            yield text
        return
    end = record_end(text, 0)
    yield "\n" + CUT_NOTE
    if text[end:].lstrip("\r\n"):
        yield text[end:].lstrip("\r\n")


def _last_record_start(text: str) -> int:
    """The last offset at which a record begins; 0 when only the first one does."""
    line = len(text)
    for _ in range(MAX_LINES_BACK):
        line = text.rfind("\n", 0, line)
        if line < 0:
            return 0
        if RECORD_START.match(text, line + 1) and not _DANGLING.search(
            text, max(0, line - _DANGLING_REACH), line + 1
        ):
            return line + 1
    return 0


MAX_LINES_BACK = 20_000  # lines looked at for a place to split; each costs a microsecond or two
