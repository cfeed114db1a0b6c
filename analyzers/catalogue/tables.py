"""Careful reading of the catalogue's TOML: every complaint is one line that names the file and the entry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from analyzers.errors import UserError

# One module under two names: the standard library has it from Python 3.11 on.
toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

SIZE_LIMIT = 1 << 20  # bytes; the shipped files are under 100 KB, so a larger one is not a catalogue
SHOWN_NAME = 60  # characters of a foreign name shown in an error line
REMEDY = "correct the entry, or reinstall llama-blackbox to get its own catalogue back"
T = TypeVar("T")


def printable(text: str, limit: int = SHOWN_NAME) -> str:
    """``text`` cut to ``limit`` characters, with anything a terminal could act on replaced by '?'."""
    return "".join(char if char.isprintable() else "?" for char in text[:limit])


class Table:
    """One TOML table with the place it came from; getters raise UserError instead of KeyError."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data = data
        self.where = where
        self.read: set[str] = set()

    def fail(self, what: str) -> UserError:
        return UserError(what, where=self.where, remedy=REMEDY)

    def _get(self, key: str, kind: type[T], default: T | None) -> T:
        self.read.add(key)
        value = self.data.get(key, default)
        # bool is an int to Python; a build number written as `true` is a mistake all the same
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.fail(f"'{key}' must be {'given as ' if value is None else ''}{kind.__name__}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A non-empty string without control characters (``default`` may be empty)."""
        value = self._get(key, str, default)
        if value != default and (not value.strip() or not value.replace("\n", "").isprintable()):
            raise self.fail(f"'{key}' is empty or holds control characters")
        return " ".join(value.split())

    def optional(self, key: str) -> str | None:
        return self.text(key) if key in self.data else None

    def number(self, key: str) -> int:
        return self._get(key, int, None)

    def optional_number(self, key: str) -> int | None:
        return self.number(key) if key in self.data else None

    def optional_real(self, key: str) -> float | None:
        return self._get(key, float, None) if key in self.data else None

    def flag(self, key: str, default: bool) -> bool:
        return self._get(key, bool, default)

    def required_flag(self, key: str) -> bool:
        """A bool that must be written down: nothing is assumed where a guess could disturb a server."""
        return self._get(key, bool, None)

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(key, default)
        if value not in allowed:
            raise self.fail(f"'{key}' is '{printable(value)}', not one of {', '.join(allowed)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of non-empty strings; absent means empty."""
        values = self._get(key, list, [])
        if not all(isinstance(value, str) and value.strip() for value in values):
            raise self.fail(f"'{key}' must be a list of non-empty strings")
        return tuple(" ".join(value.split()) for value in values)

    def rows(self, key: str, make: Callable[[Table], T]) -> tuple[T, ...]:
        """A list of tables, each made into something by ``make``; absent means empty."""
        return tuple(make(row) for row in self.tables(key))

    def tables(self, key: str) -> Iterator[Table]:
        for index, row in enumerate(self._get(key, list, []), start=1):
            if not isinstance(row, dict):
                raise self.fail(f"'{key}' must be a list of tables")
            name = row.get("id")
            label = printable(name) if isinstance(name, str) else f"number {index}"
            made = Table(row, f"{self.where}, {key} {label}")
            yield made
            made.finish()

    def named(self, key: str) -> dict[str, Table]:
        """Sub-tables by name, for example ``[class.SEGV]``; absent means empty."""
        inner = Table(self._get(key, dict, {}), f"{self.where}, {key}")
        places = {name: f"{inner.where} {printable(name)}" for name in inner.data}
        return {name: Table(inner._get(name, dict, None), place) for name, place in places.items()}

    def finish(self) -> None:
        """Complain about keys nobody read: a misspelt key must not silently lose its content."""
        unknown = sorted(set(self.data) - self.read)
        if unknown:
            raise self.fail(f"unknown key '{printable(unknown[0])}'")


def read_toml(path: Path) -> Table:
    """The file as a Table. Raises UserError when it is missing, too large, not UTF-8 or not TOML."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
        if len(data) > SIZE_LIMIT:
            raise UserError(f"larger than {SIZE_LIMIT} bytes", where=path.name, remedy=REMEDY)
        return Table(toml.loads(data.decode("utf-8")), path.name)
    except OSError as error:
        raise UserError(f"cannot be read ({error.strerror})", where=path.name, remedy=REMEDY) from None
    except (ValueError, RecursionError) as error:
        why = printable(str(error), 120) or "nested too deeply"
        raise UserError(f"is not valid TOML ({why})", where=path.name, remedy=REMEDY) from None
