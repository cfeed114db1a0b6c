"""Is the model's file what it was when the server loaded it? A reload opens it again (D7)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from analyzers.contracts.facts import ModelFileFact
from collector.check.model import Finding, Level
from collector.sources.modelfile import look_at_file, parts
from collector.sources.procfs import PROC, GoneError, Process

MODEL = "model"
DELETED = " (deleted)"
MAX_FILES = 64  # names of one server, and parts of one name: a split model has tens; twice that in all
# Seconds: the kernel tells the moment of boot in whole ones, and a file may be written just before a start.
MARGIN = 2.0
_ROW = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+\s+(/.*)$")
STATES = {
    "missing": "is not there any more",
    "unreadable": "may not be read by the server",
    "replaced": "was replaced since it was loaded",
    "cut": "was cut: it is shorter than what the server has mapped",
    "changed": "was written since the server started",
}


@dataclass(frozen=True)
class ModelLook:
    """``files`` with state present | missing | unreadable | replaced | cut | changed; ``mapped``: the server
    has one of them mapped now; ``size`` of all present, bytes."""

    files: tuple[ModelFileFact, ...] = ()
    mapped: bool = False
    unread: bool = False

    @property
    def size(self) -> int:
        return sum(one.size or 0 for one in self.files if one.state != "missing")

    @property
    def broken(self) -> tuple[ModelFileFact, ...]:
        return tuple(one for one in self.files if one.state in STATES)


def look_at_weights(pid: int, paths: Sequence[str]) -> ModelLook:
    """The files of a model, named by the server's settings, or else the GGUF files that it has mapped."""
    try:
        with Process(pid) as process:
            began, mapped = _began(process), mapped_files(process.read("maps").decode("utf-8", "replace"))
    except (GoneError, OSError):
        return ModelLook(unread=True)
    held = {path.removesuffix(DELETED): (path.endswith(DELETED), end) for path, end in mapped.items()}
    wanted = list(dict.fromkeys([*paths, *(path for path in held if path.endswith(".gguf"))]))[:MAX_FILES]
    each = [part for path in wanted for part in islice(parts(path), MAX_FILES)]
    found = [look_at_file(path, pid=pid) for path in each[: MAX_FILES * 2]]
    judged = tuple(_judged(one, held.get(one.path or ""), began) for one in found)
    return ModelLook(judged, any(one.path in held for one in found))


def mapped_files(maps: str) -> dict[str, int]:
    """Path as the kernel prints it to the end of what is mapped of it, bytes."""
    found: dict[str, int] = {}
    for line in maps.splitlines():
        row = _ROW.match(line)
        if row is not None:
            end = int(row[3], 16) + int(row[2], 16) - int(row[1], 16)
            found[row[4]] = max(found.get(row[4], 0), end)
    return found


def _judged(one: ModelFileFact, held: tuple[bool, int] | None, began: float | None) -> ModelFileFact:
    """A name that was taken away under a mapping belongs to another file now."""
    if one.state != "present":
        return one
    if held is not None and held[0]:
        return replace(one, state="replaced")
    page = os.sysconf("SC_PAGE_SIZE")
    if held is not None and one.size is not None and one.size + page <= held[1]:
        return replace(one, state="cut")
    if began is not None and one.mtime is not None and one.mtime > began + MARGIN:
        return replace(one, state="changed")
    return one


def _began(process: Process) -> float | None:
    """Unix seconds."""
    with suppress(OSError, ValueError, StopIteration):
        text = (PROC / "stat").read_text()
        boot = next(line for line in text.splitlines() if line.startswith("btime "))
        start = process.incarnation().start_time
        return int(boot.split()[1]) + start if start is not None else None
    return None


def model_rules(look: ModelLook, sleeps: bool | None, sleeping: bool | None = None) -> list[Finding]:
    """What a changed file does to this server."""
    made = [_finding(one, look.mapped, sleeps) for one in look.broken]
    if look.unread:
        what, why = "its mapped files could not be read", "whether its model's file changed is not known"
        made.append(Finding(MODEL, MODEL, Level.UNREAD, what, why, "run it with sudo"))
    return made


def _finding(one: ModelFileFact, mapped: bool, sleeps: bool | None) -> Finding:
    what = f"{one.path} {STATES[one.state]}"
    ahead = "the next wake loads it and aborts if it is no good model (D7)"
    if sleeps is False:
        ahead = "a restart loads it; until then the server keeps what it has"
    level = Level.RISK
    if one.state in ("missing", "unreadable"):
        level = Level.LOST if sleeps is not False else Level.RISK
        ahead = (
            "the next wake cannot load it, and the server aborts (D7)"
            if sleeps is not False
            else "a restart fails"
        )
    if one.state == "cut" or (one.state == "changed" and mapped):
        level = Level.LOST if one.state == "cut" else Level.RISK
        ahead = "it is mapped: a read beyond its end is a SIGBUS, and answers come from mixed contents"
    change = "put the file back, or restart the server at a moment of your choice; replace models by rename"
    return Finding(MODEL, MODEL, level, what, ahead, change, one.state)
