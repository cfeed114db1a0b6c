"""Read one text of any length: a server's log, a kernel log, a supervisor's, or a mixture of them.

Memory is flat in the file's length; the real grammar runs only on candidate lines (see shapes.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.report import Gap
from analyzers.logs import describe
from analyzers.logs.blocks import BLOCK, Block, backward, forward, opened, read_some, seekable
from analyzers.logs.lives import Lives
from analyzers.logs.prefix import strip
from analyzers.logs.reading import Life, Reading
from analyzers.logs.recognise import FORM_LINES, form_of, stamp_of
from analyzers.logs.shapes import Shapes
from analyzers.logs.text import MAX_NAME, decode, visible

HEAD = 64 * 1024  # bytes that decide form and direction
FALLS = 3  # stamps that fall before a text counts as reversed
FALLS_PER_RISE = 4  # and so many times more falls than rises: restarts make falls too
PAGER_WIDTH = 40  # a line shorter than this that ends in ">" was not cut by a pager
CUT_SHARE = 20  # one line in so many of the head cut at one width: a pager's work
SNIFFED_KERNEL = 8 * 1024


def read_text(source: Path | str | IO[bytes], name: str | None = None) -> Reading:
    """Evidence of a log file, path or binary stream. ``name`` is shown in sources, never opened.

    Raises UserError when the source cannot be opened or read; damage inside is a gap, not an error.
    """
    shown = visible(
        name or (Path(source).name if isinstance(source, (str, os.PathLike)) else "stream"), MAX_NAME
    )
    with opened(source, shown) as handle:
        head = read_some(handle, HEAD, shown)
        sample = [decode(line) for line in head.split(b"\n")[: 8 * FORM_LINES]]
        turned = is_reversed(sample)
        form = describe.FORM if describe.looks_like(sample) else form_of(sample[:FORM_LINES])
        if turned:
            with seekable(handle, shown, head) as whole:
                return _scan(backward(whole, shown), shown, form, sample, turned)
        return _scan(forward(handle, shown, head), shown, form, sample, turned)


def _scan(
    blocks: Iterator[Block], name: str, form: str | None, sample: Sequence[str], turned: bool
) -> Reading:
    shapes, lives = Shapes(form), Lives(name, form, turned)
    lines = size = long_lines = 0
    tail = b""
    for block in blocks:
        judged = shapes.judge(block.data)
        first = block.first_line or lines + 1
        if judged.counts:
            lives.feed_block(first, judged)
        lines = max(lines, first + len(judged.shapes) - 1)
        size += block.size
        long_lines += block.long_lines
        tail = block.data[-HEAD:] if not turned or not tail else tail
    found, outside = lives.finish()
    outside = _shell_words(outside, found, 1 if turned else lines - _blank_at_end(tail))
    if form == describe.FORM:
        outside = describe.with_units(sample, outside, not found)
    gaps = (*_text_gaps(name, sample, tail, long_lines), *_life_gaps(name, found, lives))
    return Reading(
        name=name,
        kind="kernel" if not found and form in ("dmesg", "syslog") and outside else "log",
        evidence=_in_order((*outside, *(item for life in found for item in life.evidence)), turned),
        lives=found,
        outside=outside,
        gaps=gaps,
        lines=lines if size else 0,
        bytes=size,
        era=next((life.era for life in reversed(found) if life.era), None),
        form=form,
        reversed=turned,
        process_starts=lives.starts,
        counts=dict(lives.counts),
    )


def _blank_at_end(tail: bytes) -> int:
    text = tail.rstrip(b"\r\n\t ")
    return tail[len(text) :].count(b"\n")


def _shell_words(outside: Sequence[Evidence], found: Sequence[Life], last: int) -> tuple[Evidence, ...]:
    """In a server's log a shell's word is the shell's only as the last line: the server prints no more."""
    return tuple(
        _shell_word(item, last) if found and item.data.get("by") == "shell" else item for item in outside
    )


def _shell_word(item: Evidence, last: int) -> Evidence:
    ends = int(item.source.rpartition(":")[2]) == last
    return item.model_copy(update={"trust": Trust.SUPERVISOR if ends else Trust.CLIENT})


def is_reversed(sample: Sequence[str]) -> bool:
    """True for ``journalctl -r`` and kin: stamps fall line by line. Elapsed stamps first, then others."""
    for clock in (_elapsed, _wall, _mono):
        stamps = [stamp for stamp in map(clock, sample) if stamp is not None]
        falls = sum(after < before for before, after in pairwise(stamps))
        rises = sum(after > before for before, after in pairwise(stamps))
        if stamps:
            return falls >= FALLS and falls > FALLS_PER_RISE * rises
    return False


def _elapsed(line: str) -> float | None:
    return stamp_of(line[:400].encode("utf-8", "replace"))


def _wall(line: str) -> float | None:
    return strip(line[:400])[0].wall


def _mono(line: str) -> float | None:
    return strip(line[:400])[0].mono


def _in_order(items: Sequence[Evidence], turned: bool) -> tuple[Evidence, ...]:
    return tuple(sorted(items, key=lambda item: int(item.source.rpartition(":")[2]), reverse=turned))


def _text_gaps(name: str, sample: Sequence[str], tail: bytes, long_lines: int) -> Iterator[Gap]:
    last = tail.rpartition(b"\n")[2]
    cut = [line for line in (*sample, decode(last)) if len(line) >= PAGER_WIDTH and line.endswith(">")]
    widths = {len(line) for line in cut}
    if len(cut) > len(widths) and len(cut) * CUT_SHARE >= len(sample) / 2:
        yield Gap(
            what="ends of lines",
            why=f"{name}: a pager cut the lines (they end in '>')",
            command="journalctl --no-pager -o export > server.export",
        )
    if long_lines:
        why = f"{name}: {long_lines} lines are longer than {BLOCK // 1024} KiB; their ends were not read"
        yield Gap(what="ends of very long lines", why=why)


def _life_gaps(name: str, found: Sequence[Life], lives: Lives) -> Iterator[Gap]:
    if found and found[0].head_lost:
        yield Gap(
            what="the beginning of the log",
            why=f"{name}: no line of the first process's start is in it",
            command="collect the rotated file before it, or journalctl -b for the whole boot",
        )
    if lives.dropped:
        why = f"{name}: {lives.dropped} process lives in the middle were counted, their events not kept"
        yield Gap(what="some process lives", why=why, command="split the log and read the part in question")
    beside = lives.outside
    if beside.skipped:
        why = f"{name}: {beside.skipped} of {beside.count} kernel or supervisor lines were counted, not kept"
        yield Gap(what="kernel and supervisor lines in the middle", why=why)
    skipped = sum(life.skipped for life in found)
    if skipped:
        yield Gap(what="events in the middle", why=f"{name}: {skipped} telling lines were counted, not kept")
    if any((life.verbosity if life.verbosity is not None else 3) < 3 for life in found):
        yield Gap(
            what="sleep lines",
            why=f"{name}: the verbosity was below 3, at which no sleep line is printed",
            command="run the server with -lv 3",
        )
