"""systemd-coredump's leavings: its own records in the journal, its files with their attributes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from analyzers.contracts.report import Gap
from analyzers.logs.entries import Entry
from analyzers.logs.journal_lives import COREDUMP_MESSAGE, is_core_record
from analyzers.triage.readers.store import named_in_store
from collector.capture.intake.found import SYSTEMD, Found
from collector.capture.setup.safe import unsafe
from collector.gather.corefiles import in_store
from collector.gather.deaths import HOSTS, NEWEST, by_name
from collector.gather.journal import Journal

_ATTRIBUTES = ("pid", "uid", "signal", "timestamp", "exe", "comm")
_MOST_ATTRIBUTE = 4096


def in_systemd(journal: Journal, store: Path) -> tuple[list[Found], list[Gap]]:
    """Deaths of what may be llama-servers: the core itself tells for certain. Records that any user can have
    sent are left out, and files in a folder that is not root's own."""
    cut = journal.slice([f"MESSAGE_ID={COREDUMP_MESSAGE}"], newest=NEWEST)
    found = [_of_record(entry) for entry in cut.entries() if is_core_record(entry) and _may_be(entry)]
    return [*found, *_files(store)], list(cut.gaps)


def _may_be(entry: Entry) -> bool:
    exe, comm = entry.text("COREDUMP_EXE"), entry.text("COREDUMP_COMM")
    return by_name(exe, comm) or HOSTS.search(exe or comm or "") is not None


def _of_record(entry: Entry) -> Found:
    stamp = entry.number_of("COREDUMP_TIMESTAMP") or entry.number_of("__REALTIME_TIMESTAMP") or 0
    name = entry.text("COREDUMP_FILENAME") or ""
    path = Path(name) if named_in_store(Path(name).name) and name.startswith("/") else None
    gone = path is not None and not path.is_file()
    return Found(
        SYSTEMD,
        None if gone else path,
        stamp / 1e6,
        pid=entry.number_of("COREDUMP_PID"),
        boot_id=entry.text("_BOOT_ID"),
        signal=entry.number_of("COREDUMP_SIGNAL"),
        exe=entry.text("COREDUMP_EXE"),
        unit=entry.text("COREDUMP_UNIT") or entry.text("COREDUMP_USER_UNIT"),
        truncated=entry.text("COREDUMP_TRUNCATED") == "1",
        notes=_notes(gone, path),
    )


def _notes(gone: bool, path: Path | None) -> tuple[str, ...]:
    if gone:
        return ("the record's core is no longer there: it was removed (MaxUse=, KeepFree=, tmpfiles)",)
    none = "none was stored (a core limit of 0, Storage=none, or larger than ProcessSizeMax=)"
    return () if path is not None else (none,)


def _files(store: Path) -> Iterator[Found]:
    if not store.is_dir() or unsafe(store) is not None:
        return
    for kept in in_store(store):
        told = _attributes(kept.path)
        exe = told.get("exe")
        if by_name(exe, kept.comm) or HOSTS.search(exe or kept.comm or ""):
            signal = told.get("signal", "")
            yield Found(
                SYSTEMD,
                kept.path,
                kept.wall,
                pid=kept.pid,
                boot_id=kept.boot_id,
                signal=int(signal) if signal.isdecimal() and len(signal) < 3 else None,
                exe=exe,
            )


def _attributes(path: Path) -> dict[str, str]:
    """user.coredump.* of a file of root's; systemd-coredump sets them before anybody can read the file."""
    found: dict[str, str] = {}
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return found
    try:
        if os.fstat(descriptor).st_uid != 0:
            return found
        for name in _ATTRIBUTES:
            try:
                value = os.getxattr(descriptor, f"user.coredump.{name}")
            except OSError:
                continue
            found[name] = value[:_MOST_ATTRIBUTE].decode("utf-8", "replace")
    finally:
        os.close(descriptor)
    return found
