"""Texts whose lines end in CR alone, as some terminals' and serial consoles' recordings do."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile

HEAD = 64 << 10  # bytes that decide; a progress bar's CR stands among lines that end in LF
MAX_COPIED = 1 << 30  # bytes: a recording is small, and the copy takes room in a temporary folder
BLOCK = 1 << 20
CR, LF = b"\r", b"\n"


def with_line_feeds(head: bytes) -> bytes:
    """``head`` with LF for CR where no line of it ends in LF."""
    return head.replace(CR, LF) if CR in head.rstrip(CR) and LF not in head else head


def readable(path: Path, stack: ExitStack) -> Path:
    """``path``, or a copy with LF that lives as long as ``stack``. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        if with_line_feeds(head) is head:
            return path
        made = NamedTemporaryFile(prefix="llama-blackbox-", suffix=".part")  # noqa: SIM115 - the stack's
        copy = stack.enter_context(made)
        block, left = head, MAX_COPIED
        while block and left > 0:
            copy.write(block.replace(CR, LF))
            left -= len(block)
            block = file.read(BLOCK)
        copy.flush()
    return Path(copy.name)
