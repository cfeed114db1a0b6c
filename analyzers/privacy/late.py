"""A pattern that is compiled when it is first used. Most of redaction's are needed by few texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property

Replacement = str | Callable[[re.Match[str]], str]


class Late:
    """Stands for ``re.compile(source, flags)``; compiling all of redaction's at once takes 15 ms."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self.source = source
        self.flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.source, self.flags)

    def sub(self, replacement: Replacement, text: str) -> str:
        return self.compiled.sub(replacement, text)

    def search(self, text: str, start: int = 0, end: int | None = None) -> re.Match[str] | None:
        return self.compiled.search(text, start, len(text) if end is None else end)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self.compiled.match(text, start)

    def finditer(self, text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
        return self.compiled.finditer(text, start, len(text) if end is None else end)
