"""What was gathered, written into the capture's folder once the process has been let go.

docs/capture.md describes the files. The manifest is the last one.
"""

import os
import sys
from time import monotonic

from collector.capture.crash import limits, notes, sockets, threads
from collector.capture.crash.corefile import MAX_BYTES, write_core
from collector.capture.crash.gather import Gathered
from collector.capture.crash.hide import clean_environment, clean_words
from collector.capture.crash.parts import Parts
from collector.capture.crash.request import Crash
from collector.capture.crash.store import MANIFEST, TRACE, Folder
from collector.capture.crash.stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = "llama-blackbox/capture/1"
CORE, FULL_CORE = "core", "core.full"
_UNREAD = ("environ", "cmdline", "stat")  # kept in redacted or parsed form, or among the crash's own facts
_HASHED = 1 << 28  # larger files get no hash here: their size and place tell them


class Account:
    """What the manifest says besides the files: filled while the capture is made."""

    def __init__(self, crash: Crash, mode: str, mark: str) -> None:
        self.crash, self.mode, self.mark = crash, mode, mark
        self.start_ticks: int | None = None
        self.began = monotonic()
        self.marks: dict[str, float] = {}
        self.full: dict[str, object] | None = None
        self.settings_faults: list[str] = []

    def moment(self, name: str) -> None:
        """Seconds since the handler's first line."""
        self.marks[name] = round(monotonic() - self.began, 6)


def write_capture(folder: Folder, found: Gathered, stream: Stream, parts: Parts, account: Account) -> None:
    """All files, each synced, the manifest last. A full disk costs the large files first: they become gaps.

    Raises OSError when not even the manifest can be written.
    """
    core = _part(parts, CORE, _write_core, folder, found, stream, parts)
    for name, data in found.texts.items():
        if name not in _UNREAD and data:
            _part(parts, name, folder.write, name, data)
    inodes = _socket_inodes(found.descriptors)
    tables: dict[str, object] = {
        "threads.json": [threads.told(row) for row in found.threads],
        "sockets.json": {"way": found.sockets.way, "sockets": sockets.connections(found.sockets, inodes)},
        "descriptors.json": [{"fd": number, "target": target} for number, target in found.descriptors],
        "settings.json": _settings(found),
    }
    for name, table in tables.items():
        _part(parts, name, folder.write, name, _json(table))
    copies = _copies(folder, found, parts)
    account.moment("written")
    folder.write(MANIFEST, _json(_manifest(folder, found, stream, parts, account, core, copies)))


def _part(parts: Parts, name: str, write: "Callable[..., object]", *given: object) -> object:
    try:
        return write(*given)
    except (OSError, ValueError, MemoryError) as problem:
        parts.gaps.append((f"file {name}", f"{type(problem).__name__}: {problem}"[:200]))
        return None


def _write_core(folder: Folder, found: Gathered, stream: Stream, parts: Parts) -> dict[str, object] | None:
    rows = notes.to_keep(notes.parse(stream.notes))
    if not rows:
        return None
    if stream.cut_notes:
        parts.gaps.append(("notes", f"{stream.cut_notes} bytes more than the handler takes were left out"))
    segments = found.kept.segments if found.kept is not None else []
    descriptor = folder.create(CORE)
    try:
        written = write_core(descriptor, b"".join(note.packed() for note in rows), segments, limit=MAX_BYTES)
        os.fsync(descriptor)
    except (OSError, ValueError):
        folder.remove(CORE)
        raise
    finally:
        os.close(descriptor)
    return {"file": CORE, "size": written.size, "threads": len(notes.threads(rows)), "left_out": ["xstate"]}


def _copies(folder: Folder, found: Gathered, parts: Parts) -> list[dict[str, object]]:
    """Programs and libraries whose files are gone, copied from the descriptors that were kept."""
    copies: list[dict[str, object]] = []
    room = limits.COPY_BYTES
    for number, (name, descriptor) in enumerate(found.held):
        size = os.fstat(descriptor).st_size
        file = "exe" if name == "exe" else f"deleted-{number}"
        if size > room:
            parts.gaps.append((f"file {file}", f"{name}: {size} bytes, more than are copied"))
            continue
        done = _part(parts, file, _copy, folder, file, descriptor, size)
        if done is not None:
            room -= size
            copies.append({"file": file, "name": name, "size": size})
    return copies


def _copy(folder: Folder, name: str, source: int, size: int) -> int:
    target = folder.create(name)
    at = 0
    try:
        while at < size:
            sent = os.sendfile(target, source, at, size - at)
            if not sent:
                break
            at += sent
        os.fsync(target)
    except OSError:
        folder.remove(name)
        raise
    finally:
        os.close(target)
    return at


def _socket_inodes(descriptors: list[tuple[int, str]]) -> dict[int, int]:
    found = {}
    for number, target in descriptors:
        if target.startswith("socket:[") and target[8:-1].isdecimal():
            found[int(target[8:-1])] = number
    return found


def _settings(found: Gathered) -> dict[str, object]:
    words = {name: found.texts.get(name, b"").split(b"\0")[:-1] for name in ("cmdline", "environ")}
    text = {name: [word.decode("utf-8", "replace") for word in row] for name, row in words.items()}
    return {
        "arguments": clean_words(text["cmdline"]),
        "environment": clean_environment(text["environ"]),
        "cgroup": {name: data.decode("ascii", "replace").strip() for name, data in found.cgroup.items()},
    }


def _manifest(
    folder: Folder,
    found: Gathered,
    stream: Stream,
    parts: Parts,
    account: Account,
    core: object,
    copies: list[dict[str, object]],
) -> dict[str, object]:
    crash = account.crash
    return {
        "schema": SCHEMA,
        "mode": account.mode,
        "mark": account.mark,
        "crash": _crash(crash, stream),
        "process": {
            "pid": crash.pid,
            "start_ticks": account.start_ticks,
            "ticks_per_second": os.sysconf("SC_CLK_TCK"),
            "boot_id": found.boot_id,
            "exe": found.exe,
            "links": found.links,
            "build_ids": _build_ids(found),
        },
        "clocks": found.clocks,
        "core": core,
        "full_core": account.full,
        "stream": found.streamed,
        "stacks": _stacks(found),
        "copies": copies,
        "files": _files(folder),
        "gaps": [{"part": part, "why": why} for part, why in _all_gaps(found, parts, account)],
        "seconds": {**account.marks, "parts": parts.seconds},
        "python": sys.version.split()[0],
    }


def _crash(crash: Crash, stream: Stream) -> dict[str, object]:
    fault = notes.fault(notes.body_of(notes.parse(stream.notes), notes.SIGINFO))
    return {
        "signal": crash.number("s"),
        "code": fault[1] if fault else None,
        "address": fault[2] if fault else None,
        "tid": crash.tid,
        "ns_pid": crash.number("p"),
        "ns_tid": crash.number("i"),
        "time": crash.number("t"),
        "core_limit": crash.number("c"),
        "dump_mode": crash.number("d"),
        "uid": crash.number("u"),
        "gid": crash.number("g"),
        "cpu": crash.number("C"),
        "host": crash.values.get("h", ""),
        "thread": crash.values.get("e", ""),
        "program": crash.program,
    }


def _build_ids(found: Gathered) -> dict[str, str]:
    rows = found.kept.build_ids if found.kept is not None else {}
    return {path.decode("utf-8", "replace"): value for path, value in rows.items()}


def _stacks(found: Gathered) -> list[dict[str, object]]:
    rows = found.kept.stacks if found.kept is not None else []
    return [
        {"ns_tid": row.tid, "sp": row.sp, "start": row.start, "end": row.end, "whole": row.whole}
        for row in rows
    ]


def _all_gaps(found: Gathered, parts: Parts, account: Account) -> list[tuple[str, str]]:
    rows = [*parts.gaps, *(("settings", fault) for fault in account.settings_faults)]
    for text in found.kept.notes if found.kept is not None else []:
        part, _, why = text.partition(": ")
        rows.append((part, why))
    return rows


def _files(folder: Folder) -> dict[str, dict[str, object]]:
    """Size and SHA-256 of every file but the manifest and the breadcrumb."""
    import hashlib

    found: dict[str, dict[str, object]] = {}
    for name in sorted(os.listdir(folder.descriptor)):
        if name == TRACE:
            continue
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder.descriptor)
        size = os.fstat(descriptor).st_size
        digest = None
        if size <= _HASHED:
            summed = hashlib.sha256()
            while data := os.read(descriptor, 1 << 20):
                summed.update(data)
            digest = summed.hexdigest()
        os.close(descriptor)
        found[name] = {"size": size, "sha256": digest}
    return found


def _json(table: object) -> bytes:
    import json

    return json.dumps(table, indent=1, ensure_ascii=True).encode("ascii", "replace") + b"\n"
