"""Reads the agent's settings and the key files that they name. Every refusal is one line with its place."""

from __future__ import annotations

import os
import stat
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from analyzers.errors import UserError
from analyzers.privacy.visible import visible
from collector.agent.config.model import Config

toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

MAX_FILE = 1 << 20
MAX_KEY = 4096
DEFAULT_FILE = Path("/etc/llama-blackbox/agent.toml")
_OTHERS = stat.S_IRWXG & ~stat.S_IRGRP | stat.S_IRWXO  # a key may be shared with the agent's group, to read


def load_config(path: Path | None) -> Config:
    """The settings of ``path``; of the default file when None, and the defaults when that one is absent.

    Raises UserError for a file that cannot be read or that says something unknown or impossible.
    """
    if path is None:
        return load_config(DEFAULT_FILE) if DEFAULT_FILE.exists() else Config()
    return parse_config(_read(path, MAX_FILE, "settings file"), str(path))


def parse_config(data: bytes, where: str) -> Config:
    """The settings in ``data``. Raises UserError with the line or the name at fault."""
    try:
        said: dict[str, Any] = toml.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"byte {error.start} is not UTF-8", where=where, remedy="save it as UTF-8") from None
    except (toml.TOMLDecodeError, RecursionError) as error:
        said_of_it = visible(str(error) or "nested too deeply")
        raise UserError(f"not TOML: {said_of_it}", where=where, remedy="correct that line") from None
    try:
        return Config.model_validate(said)
    except ValidationError as error:
        raise UserError(_first(error), where=where, remedy="see docs/agent.md for every name") from None


def _first(error: ValidationError) -> str:
    """The first complaint, and how many more there are; never the value, which may be a secret."""
    problems = error.errors(include_input=False, include_url=False)
    one = problems[0]
    place = ".".join(str(part) for part in one["loc"]) or "the file"
    said = (
        "is not a known name"
        if one["type"] == "extra_forbidden"
        else one["msg"].removeprefix("Value error, ")
    )
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return visible(f"{place}: {said[:1].lower()}{said[1:]}{more}")


def read_secret(path: Path) -> str:
    """The first line of a key file. Raises UserError when others than owner and group may read it, when it
    is no regular file, or when it holds nothing usable."""
    text = _read(path, MAX_KEY, "key file", private=True).decode("utf-8", "replace")
    key = text.partition("\n")[0].strip()
    if not key or not key.isascii() or not key.isprintable():
        raise UserError("holds no usable key", where=str(path), remedy="put the key on its first line")
    return key


def _read(path: Path, limit: int, what: str, *, private: bool = False) -> bytes:
    try:
        # Not blocking: a FIFO in the place of a file would hold the agent for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = "check its name and its rights"
        raise UserError(
            f"the {what} cannot be read ({reason})", where=visible(str(path)), remedy=remedy
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise UserError(f"the {what} is no regular file", where=visible(str(path)), remedy="name a file")
        if private and mode & _OTHERS:
            raise UserError(
                "others may read or change it", where=visible(str(path)), remedy=f"chmod 600 {path}"
            )
        data = file.read(limit + 1)
    if len(data) > limit:
        raise UserError(f"over {limit} bytes", where=visible(str(path)), remedy=f"is this the {what}?")
    return data
