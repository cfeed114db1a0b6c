"""The code of the dead process: from the core where it was dumped, else from a file of the same build."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from analyzers.core.buildid import Match, compare
from analyzers.core.callsite import on_disk
from analyzers.core.files import opened_regular, pread
from analyzers.core.memory import Memory
from analyzers.core.model import Core
from analyzers.errors import UserError

FindFile = Callable[[str], "Path | None"]
MAX_FILES = 128  # opened at a time; a hosted server maps about 60


class Text:
    """Reads code bytes of ``core``; a context manager. A file counts only with the core's own build-id."""

    def __init__(self, core: Core, memory: Memory, find_file: FindFile = on_disk) -> None:
        self._core, self._memory, self._find = core, memory, find_file
        self._open = ExitStack()
        self._files: dict[str, int | None] = {}

    def __enter__(self) -> Text:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes of code at ``address``; shorter or empty where neither core nor file has them."""
        dumped = self._memory.read(address, size)
        if len(dumped) == size:
            return dumped
        row = self._core.mapped_at(address)
        descriptor = self._file(row.path) if row else None
        if row is None or descriptor is None:
            return b""
        return pread(descriptor, min(size, row.end - address), row.file_offset + address - row.start)

    def _file(self, mapped: str) -> int | None:
        if mapped not in self._files and len(self._files) < MAX_FILES:
            self._files[mapped] = self._opened(mapped)
        return self._files.get(mapped)

    def _opened(self, mapped: str) -> int | None:
        path = self._find(mapped)
        try:
            if path is None or not isinstance(compare(self._core, path, mapped), Match):
                return None
            return self._open.enter_context(opened_regular(path))
        except UserError:  # gone or unreadable: code that is not at hand
            return None
