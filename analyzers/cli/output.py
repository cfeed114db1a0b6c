"""Standard output and error as they are met in the wild: closed, full, ASCII only, left by their reader."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from analyzers.errors import UserError


def prepare_streams() -> None:
    """Make printing safe: a closed stream swallows what is printed, a narrow encoding never raises."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as we do
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def printing() -> Iterator[None]:
    """What is printed inside has reached standard output when this ends.

    Raises UserError when it cannot be written; a reader that went away stays BrokenPipeError.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(1)
        raise UserError(
            f"cannot be written ({(error.strerror or 'error').lower()})",
            where="standard output",
            remedy="free some space or send it elsewhere",
        ) from error


def silence(descriptor: int) -> None:
    """Send ``descriptor`` nowhere, so that the interpreter does not complain about it when it ends."""
    target = os.open(os.devnull, os.O_WRONLY)
    os.dup2(target, descriptor)
    os.close(target)
