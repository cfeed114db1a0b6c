"""Raw journal files into a bundle that triage reads: through systemd-python, telling entries only.

What decides whether an entry is telling is what triage itself would look at: the kernel's and the manager's
lines, core records, and messages with one of the log grammar's needles. A journal holds millions of others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from analyzers.contracts.bundle import BundleFile, BundleTool, Manifest
from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from analyzers.logs.telling import NEEDLES
from analyzers.version import __version__

EXPORT_NAME = "journal.export"
PART_BYTES = 128 << 20  # of one part of the output; whole parts are dropped, the oldest first
PARTS_KEPT = 4  # a crash stands at the end; half a gigabyte of telling lines is months of a busy server
FIELD_LIMIT = 64 << 10  # bytes; what the readers keep of one field
MAX_FIELDS = 256
# A whole environment, a whole core: never copied, not even into a private temporary file.
NEVER = frozenset({"COREDUMP_ENVIRON", "COREDUMP", "COREDUMP_CMDLINE", "COREDUMP_CONTAINER_CMDLINE"})
NEVER_STARTS = ("COREDUMP_PROC_", "COREDUMP_OPEN_FDS")
EXPORT_COMMAND = "journalctl --file FILE -o export > server.export"

Fields = Mapping[str, Any]  # name -> bytes, or a list of them where an entry has a field twice


@dataclass
class Written:
    """What went into the bundle; ``entries`` of all, ``told`` of those written."""

    entries: int = 0
    told: int = 0
    dropped: int = 0
    damaged: list[str] = field(default_factory=list)


def write_journal_bundle(files: Sequence[Path], target: Path) -> None:
    """Read journal ``files`` together, in the order of their clocks, and write a bundle into ``target``.

    The files are opened read-only and never changed. Raises UserError when none of them can be read.
    """
    written = Written()
    usable = [path for path in files if _opens(path, written)]
    if not usable:
        raise UserError(
            f"a journal file that cannot be read ({written.damaged[0]})",
            where=str(files[0]),
            remedy=f"copy it again, or try: {EXPORT_COMMAND}",
        )
    with _Parts(target) as parts:
        for entry in journal_entries(usable, written):
            written.entries += 1
            if is_telling(entry):
                written.told += 1
                parts.write(export_entry(entry))
        written.dropped = parts.dropped
    parts.join()
    _manifest(target, written)


def _opens(path: Path, written: Written) -> bool:
    try:
        with _reader([path]) as reader:
            _step(reader)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        written.damaged.append(f"{path.name}: {reason.lower()}")
        return False
    return True


def _reader(files: Sequence[Path]) -> Any:
    from systemd import journal

    return journal.Reader(files=[os.fspath(path.absolute()) for path in files])


def _step(reader: Any) -> Fields | None:
    """The next entry with its values as bytes: the C layer, which is four times as fast as get_next."""
    from systemd import _reader as layer

    below = layer._Reader
    if not below._next(reader, 1):
        return None
    entry: dict[str, Any] = below._get_all(reader)
    mono = below._get_monotonic(reader)
    entry["__REALTIME_TIMESTAMP"] = str(below._get_realtime(reader)).encode()
    entry["__MONOTONIC_TIMESTAMP"] = str(mono[0]).encode()
    return entry


def journal_entries(files: Sequence[Path], written: Written) -> Iterator[Fields]:
    """All entries of ``files``, merged by time. Damage in the middle ends the reading and is noted."""
    with _reader(files) as reader:
        while True:
            try:
                entry = _step(reader)
            except (OSError, ValueError) as error:
                written.damaged.append(f"after {written.entries} entries: {error}")
                return
            if entry is None:
                return
            yield entry


def is_telling(entry: Fields) -> bool:
    """True when triage would look at the entry's text, or at its fields."""
    if "COREDUMP_PID" in entry or entry.get("_TRANSPORT") == b"kernel":
        return True
    if entry.get("_PID") == b"1":
        return True
    message = first(entry.get("MESSAGE", b""))
    return any(needle in message for needle in NEEDLES)


def first(value: Any) -> bytes:
    """The first of a field's values."""
    found = value[0] if isinstance(value, list) and value else value
    return found if isinstance(found, bytes) else b""


def export_entry(entry: Fields) -> bytes:
    """The entry in the journal's export format (systemd: JOURNAL_EXPORT_FORMATS)."""
    names = [name for name in entry if name not in NEVER and not name.startswith(NEVER_STARTS)]
    lines = [_exported(name, first(entry[name])[:FIELD_LIMIT]) for name in names[:MAX_FIELDS]]
    return b"".join(lines) + b"\n"


def _exported(name: str, value: bytes) -> bytes:
    head = name.encode("ascii", "replace")
    if b"\n" not in value:
        return head + b"=" + value + b"\n"
    return head + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"


class _Parts:
    """The output in parts of which only the last ones stay: a bound that keeps the newest entries."""

    def __init__(self, folder: Path, size: int = PART_BYTES, kept: int = PARTS_KEPT) -> None:
        self._folder, self._size, self._kept = folder, size, kept
        self._names: list[Path] = []
        self._file: IO[bytes] | None = None
        self._written = 0
        self.dropped = 0

    def __enter__(self) -> _Parts:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def write(self, data: bytes) -> None:
        """Append one entry. Raises UserError when the disk is full."""
        try:
            if self._file is None or self._written + len(data) > self._size:
                self._next()
            assert self._file is not None  # noqa: S101 - _next opened it
            self._file.write(data)
            self._written += len(data)
        except OSError as error:
            raise _not_written(error, self._folder) from error

    def _next(self) -> None:
        self.__exit__()
        self._names.append(self._folder / f"part-{len(self._names) + self.dropped:06d}")
        self._file = self._names[-1].open("xb")
        self._written = 0
        if len(self._names) > self._kept:
            self._names.pop(0).unlink()
            self.dropped += 1

    def join(self) -> None:
        """Make one file of the parts, each gone as soon as it is in it."""
        place = self._folder / EXPORT_NAME
        try:
            if not self._names:
                place.write_bytes(b"")
                return
            self._names[0].rename(place)
            with place.open("ab") as file:
                for part in self._names[1:]:
                    _append(part, file)
                    part.unlink()
        except OSError as error:
            raise _not_written(error, self._folder) from error


def _append(part: Path, file: IO[bytes]) -> None:
    with part.open("rb") as source:
        while block := source.read(1 << 20):
            file.write(block)


def _not_written(error: OSError, folder: Path) -> UserError:
    return UserError(
        f"the journal's entries cannot be kept ({(error.strerror or 'error').lower()})",
        where=str(folder),
        remedy="free space or set TMPDIR to a folder with room",
    )


def _manifest(target: Path, written: Written, now: Callable[[], float] = time.time) -> None:
    size = (target / EXPORT_NAME).stat().st_size
    manifest = Manifest(
        tool=BundleTool(version=__version__),
        created=now(),
        redaction="none",
        files=(BundleFile(path=EXPORT_NAME, kind="journal-export", size=size),),
        gaps=tuple(_gaps(written)),
    )
    if not size:
        (target / EXPORT_NAME).unlink()
        manifest = manifest.model_copy(update={"files": ()})
    (target / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")


def _gaps(written: Written) -> Iterator[Gap]:
    if written.damaged:
        told = "; ".join(written.damaged[:4])
        yield Gap(
            what="part of the journal",
            why=f"{len(written.damaged)} times it could not be read on: {told}",
            command="journalctl --verify --file FILE",
        )
    if written.dropped:
        why = f"only the newest {PARTS_KEPT * PART_BYTES >> 20} MiB of telling entries were kept"
        yield Gap(what="the older part of the journal", why=why, command="journalctl --since=… -o export")
    if not written.told:
        why = f"none of its {written.entries:,} entries is llama-server's, the kernel's or the manager's"
        yield Gap(what="anything telling in the journal", why=why, command="journalctl -u UNIT -n 100")
