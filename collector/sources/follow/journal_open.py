"""Opening a journal: which files there are, which of them can be read, and why not."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST_FOLDERS = (Path("/var/log/journal"), Path("/run/log/journal"))
MACHINE_ID = Path("/etc/machine-id")
MAGIC = b"LPKSHHRH"
_MACHINE = re.compile(r"[0-9a-f]{32}(?:\..{1,64})?")
_SIZES_AT = 88  # header_size and arena_size in a journal file's header (systemd: journal-def.h)
_HEADER = _SIZES_AT + 16
MAX_FILES = 2048  # of one folder; journald keeps a hundred, a central store of many hosts some hundreds
LOCAL_ONLY = 1  # SD_JOURNAL_LOCAL_ONLY
FIELD_BYTES = 1 << 16  # of one field that are handed out: the readers' own bound
GROUPS = "adm or systemd-journal"


@dataclass(frozen=True)
class Journal:
    """Which journal: a ``folder`` of files, a ``namespace`` of the host, or (neither) the host's own."""

    folder: Path | None = None
    namespace: str | None = None

    @property
    def name(self) -> str:
        """Stable name of the stream over it."""
        if self.folder is not None:
            return f"journal:{self.folder}"
        return f"journal:namespace:{self.namespace}" if self.namespace else "journal:host"

    def folders(self) -> list[Path]:
        """Where its files are."""
        if self.folder is not None:
            return [self.folder]
        try:
            machine = MACHINE_ID.read_text().strip()
        except OSError:
            return list(HOST_FOLDERS)
        suffix = f".{self.namespace}" if self.namespace else ""
        return [folder / f"{machine}{suffix}" for folder in HOST_FOLDERS]

    def open(self) -> Any:
        """systemd-python's C reader. Raises ImportError where it is not installed, OSError, ValueError."""
        from systemd import _reader

        if self.folder is not None:
            reader = _reader._Reader(0, os.fspath(self.folder.absolute()))
        elif self.namespace is not None:
            reader = _reader._Reader(0, None, None, self.namespace)
        else:
            reader = _reader._Reader(LOCAL_ONLY)
        reader.data_threshold = FIELD_BYTES
        return reader


@dataclass(frozen=True)
class Files:
    """The files of a journal. ``refused`` may not be read, ``damaged`` are no whole journal files (why)."""

    readable: int = 0
    refused: tuple[str, ...] = ()
    damaged: tuple[str, ...] = field(default=())

    @property
    def problem(self) -> str | None:
        """One line about what is not read, None when all is."""
        if self.refused:
            return (
                f"{len(self.refused)} journal files may not be read ({self.refused[0]}); "
                f"add the agent's user to the group {GROUPS}"
            )
        if self.damaged:
            more = f" and {len(self.damaged) - 1} more" if len(self.damaged) > 1 else ""
            return f"not read: {self.damaged[0]}{more}; the other files are (journalctl --verify says more)"
        return None


def inspect(journal: Journal) -> Files:
    """Look at every file's header. A file that is cut or foreign is left out by libsystemd without a word."""
    readable = 0
    refused: list[str] = []
    damaged: list[str] = []
    for path in _files(journal.folders(), refused):
        state = _state(path)
        if state == "refused":
            refused.append(path.name)
        elif state is not None:
            damaged.append(f"{path.name} {state}")
        else:
            readable += 1
    return Files(readable, tuple(refused), tuple(damaged))


def _files(folders: list[Path], refused: list[str]) -> Iterator[Path]:
    """Files of the folders, and of the machines' folders one level below, as libsystemd takes them."""
    count = 0
    for folder in folders:
        for place, name in _names(folder, refused):
            if name.endswith((".journal", ".journal~")) and count < MAX_FILES:
                count += 1
                yield place / name


def _names(folder: Path, refused: list[str], below: bool = True) -> Iterator[tuple[Path, str]]:
    try:
        names = sorted(os.listdir(folder))
    except PermissionError:
        refused.append(f"{folder.name}/")
        return
    except OSError:
        return
    for name in names:
        if below and _MACHINE.fullmatch(name):
            yield from _names(folder / name, refused, below=False)
        else:
            yield folder, name


def _state(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except PermissionError:
        return "refused"
    except OSError as problem:
        return None if isinstance(problem, FileNotFoundError) else "cannot be opened"
    try:
        size = os.fstat(descriptor)
        head = os.read(descriptor, _HEADER) if stat.S_ISREG(size.st_mode) else b""
    except OSError:
        return "cannot be read"
    finally:
        os.close(descriptor)
    if len(head) < _HEADER or not head.startswith(MAGIC):
        return "is no journal file"
    promised = sum(int.from_bytes(head[at : at + 8], "little") for at in (_SIZES_AT, _SIZES_AT + 8))
    return "is cut" if promised > size.st_size else None
