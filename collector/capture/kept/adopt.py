"""Captures that their handler did not finish: what is whole becomes a capture, or the record of a refusal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzers.core.notes import read_core
from analyzers.errors import UserError
from collector.capture.crash.store import MANIFEST, PARTIAL, TRACE, reclaim
from collector.capture.crash.writing import CORE, FULL_CORE, SCHEMA
from collector.capture.kept.captures import manifest, partials, read_any, read_json, wall_of
from collector.capture.kept.filing import rewrite
from collector.capture.kept.retention import DOOMED
from collector.capture.setup.safe import sync_folder

KILLED = "the handler was killed"
YOUNG_SECONDS = 5.0  # between the folder and the descriptor that holds it open lie microseconds
HELD = "its handler is at work"
YOUNG = f"changed in the last {YOUNG_SECONDS:.0f} s, its handler may be at work; run adopt again"


@dataclass(frozen=True)
class Adopted:
    """``words``: one line about what became of it."""

    name: str
    words: str


def adopt(store: Path, now: float | None = None) -> Iterator[Adopted]:
    """Adopt every partial folder that nobody works on any more. Raises OSError for the disk."""
    for folder in unfinished(store, now):
        name = folder.name.removeprefix(PARTIAL)
        words = _adopt(folder, name)
        os.rename(folder, _free(store, name))
        sync_folder(store)
        yield Adopted(name, words)


def unfinished(store: Path, now: float | None = None) -> list[Path]:
    """Partial folders that no handler has open."""
    return [folder for folder, why in looked_at(store, now) if why is None]


def looked_at(store: Path, now: float | None = None) -> list[tuple[Path, str | None]]:
    """Partial folders, each with why it is left alone; None: nobody works on it any more."""
    busy, now = held_folders(), time.time() if now is None else now
    found: list[tuple[Path, str | None]] = []
    for folder in partials(store):
        if folder.name.startswith(DOOMED):
            continue
        looked = folder.stat()
        held = HELD if (looked.st_dev, looked.st_ino) in busy else None
        found.append((folder, held or (YOUNG if now - looked.st_mtime < YOUNG_SECONDS else None)))
    return found


def _free(store: Path, name: str) -> Path:
    """A name that no other capture has: an import may have taken it meanwhile."""
    names = (store / (name if not number else f"{name}-{number}") for number in range(1000))
    return next(path for path in names if not path.exists())


def held_folders(proc: Path = Path("/proc")) -> set[tuple[int, int]]:
    """(device, inode) of every folder that some process has open: a handler holds its own."""
    found = set()
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            rows = list((process / "fd").iterdir())
        except OSError:
            continue
        for row in rows:
            try:
                if PARTIAL in os.readlink(row):
                    looked = row.stat()
                    found.add((looked.st_dev, looked.st_ino))
            except OSError:
                continue
    return found


def _owned(folder: Path) -> None:
    """Root's own again, should its reader have been ended; what is no plain file is gone then."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        reclaim(descriptor)
    except FileExistsError:
        return  # named and taken away: what is plain stays
    finally:
        os.close(descriptor)


def _adopt(folder: Path, name: str) -> str:
    _owned(folder)
    whole = manifest(folder)
    if whole.get("schema") == SCHEMA:
        return "whole: only its name was missing"
    trace = read_json(folder / TRACE)
    gaps = list(_set_straight(folder))
    why = str(trace.get("why") or KILLED)
    told = _manifest(trace, name, why, gaps)
    core = folder / CORE
    if core.is_file() or (folder / FULL_CORE).is_file():
        told["core"] = {"file": CORE if core.is_file() else FULL_CORE}
    rewrite(folder, told)
    left = sorted(set(os.listdir(folder)) - {TRACE, MANIFEST})
    return f"{why}; " + (f"adopted with {', '.join(left)}" if left else "nothing but the trace is there")


def _set_straight(folder: Path) -> Iterator[dict[str, str]]:
    """Files that are half written are named, or removed where nobody could read them; one gap each."""
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if name == TRACE:
            continue
        if name == MANIFEST or (name.endswith(".json") and read_any(path) is None):
            path.unlink()
            yield {"part": f"file {name}", "why": "half written, removed"}
        elif name in (CORE, FULL_CORE):
            yield from _core_gap(path)
    yield {"part": "capture", "why": "not finished: files are whole only as far as each says itself"}


def _core_gap(path: Path) -> Iterator[dict[str, str]]:
    try:
        cut = read_core(path).cut
    except (UserError, OSError):
        path.unlink()
        yield {"part": f"file {path.name}", "why": "half written, removed"}
        return
    if cut:
        yield {"part": f"file {path.name}", "why": "half written: it holds less than its headers promise"}


def _manifest(trace: Mapping[str, Any], name: str, why: str, gaps: list[dict[str, str]]) -> dict[str, Any]:
    named = name.split("-")
    pid = trace.get("pid") or (int(named[1]) if len(named) > 1 and named[1].isdecimal() else None)
    ticks = trace.get("start_ticks") or (int(named[2]) if len(named) > 2 and named[2].isdecimal() else 0)
    return {
        "schema": SCHEMA,
        "mode": trace.get("mode"),
        "mark": trace.get("mark"),
        "crash": {
            **{part: trace.get(part) for part in ("signal", "tid", "program", "uid")},
            "time": trace.get("time") or wall_of(name),
        },
        "process": {
            "pid": pid,
            "start_ticks": ticks or None,
            "ticks_per_second": os.sysconf("SC_CLK_TCK"),
            "boot_id": trace.get("boot_id"),
        },
        "core": None,
        "full_core": None,
        "adopted": {
            "at": int(time.time()),
            "why": why,
            "state": trace.get("state") or "no trace",
            "stage": trace.get("stage"),
        },
        "gaps": gaps,
    }
