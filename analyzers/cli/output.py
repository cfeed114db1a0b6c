"""Standard output and error as they are met in the wild: closed, full, ASCII only, left by their reader."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from analyzers.errors import UserError

# Raw they are legal in JSON, but some terminals obey C1 controls, and the others turn or hide text.
_STEERING = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_NOT_ASCII = re.compile("[^\x00-\x7e]")


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


@contextmanager
def for_a_reader() -> Iterator[None]:
    """What is printed inside may be left by its reader (``| head``): then the rest of it goes nowhere, and
    the command ends with the status it would have had. rich and typer make an exit of a broken pipe.
    """
    try:
        yield
    except BrokenPipeError:
        silence(1)
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        silence(1)


def printable_json(text: str) -> str:
    """JSON that is the same to a parser and harmless to a terminal; ASCII where stdout is no UTF-8."""
    utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    return (_STEERING if utf8 else _NOT_ASCII).sub(lambda found: json.dumps(found[0])[1:-1], text)


def silence(descriptor: int) -> None:
    """Send ``descriptor`` nowhere, so that the interpreter does not complain about it when it ends."""
    target = os.open(os.devnull, os.O_WRONLY)
    os.dup2(target, descriptor)
    os.close(target)
