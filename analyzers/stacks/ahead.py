"""Starts eu-stack on the command line's core before anything heavy is imported.

The unwinding (60-85 ms) then runs on another CPU while the rest is imported; whoever asks for it later finds
the child already running. It is confined as always, and gone when the command ends.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from analyzers.stacks import command, confine

# ELF, 64 bits, little-endian; and from byte 16 on ET_CORE for x86-64: what the core reader accepts.
_IDENTITY, _CORE_AT, _CORE = b"\x7fELF\x02\x01", 16, b"\x04\x00\x3e\x00"
_HARMLESS = frozenset({"--fast", "--json", "--markdown", "--include-private"})


@contextmanager
def started(args: Sequence[str]) -> Iterator[None]:
    """Inside, the first unwinding that ``triage ARGS`` will ask for may already be running."""
    try:
        _start(args)
    except (OSError, ValueError):
        confine.end_begun()  # whatever it is, the usual way meets it again and says so
    try:
        yield
    finally:
        confine.end_begun()


def _start(args: Sequence[str]) -> None:
    core = _first_core(args)
    argv = command.eu_stack(core[0], None, command.FIRST_FRAMES) if core else None
    if core is not None and argv is not None:
        confine.begin(argv, seconds=command.SECONDS, memory_bytes=command.MEMORY_BYTES, mapped_bytes=core[1])


def _first_core(args: Sequence[str]) -> tuple[str, int] | None:
    """(path, size) of the first input when it is a plain core and no option changes how it is read."""
    if any(arg.startswith("-") and arg not in _HARMLESS for arg in args):
        return None
    path = next((arg for arg in args if not arg.startswith("-")), None)
    size = _core_size(path) if path else None
    return (str(Path(path).absolute()), size) if path and size else None


def _core_size(path: str) -> int | None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        head = (
            os.pread(descriptor, _CORE_AT + len(_CORE), 0)
            if stat.S_ISREG(found.st_mode) and found.st_size
            else b""
        )
    finally:
        os.close(descriptor)
    return found.st_size if head.startswith(_IDENTITY) and head[_CORE_AT:] == _CORE else None
