"""A text that is small by nature, read whole and made safe."""

from __future__ import annotations

from pathlib import Path

from analyzers.logs.text import decode

MAX_TEXT = 8 << 20  # bytes; a listing of a host's sockets or units has some hundred KiB
MAX_LINES = 100_000


def small_text(path: Path) -> str:
    """The first MAX_TEXT bytes as text, colours and NUL gone. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(MAX_TEXT)
    return "\n".join(small_lines_of(data))


def small_lines(path: Path) -> list[str]:
    """The same, as lines."""
    with path.open("rb") as file:
        return small_lines_of(file.read(MAX_TEXT))


def small_lines_of(data: bytes) -> list[str]:
    return [decode(raw) for raw in data.split(b"\n", MAX_LINES)[:MAX_LINES]]
