"""Makes a capture of a core that lies somewhere else. The source is read, never changed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from analyzers.core.buildid import find_executable
from analyzers.core.model import Core
from analyzers.core.notes import read_core
from analyzers.core.packed import opened
from analyzers.errors import UserError
from collector.capture.crash import limits
from collector.capture.crash.corefile import write_sparse
from collector.capture.crash.store import MANIFEST, PARTIAL, Folder, RefusedError, begin, open_store
from collector.capture.crash.writing import CORE, FULL_CORE, SCHEMA
from collector.capture.intake.found import SYSTEMD, WATCH, Found, bare, identity_of, known_already
from collector.capture.intake.watch import OPEN_FLAGS, by_descriptor
from collector.capture.kept.captures import captures
from collector.capture.kept.comparing import difference
from collector.capture.kept.filing import listed
from collector.capture.kept.slimming import slim
from collector.gather.deaths import core_is_servers
from collector.gather.slim import REPORT_SUFFIX, core_file

TAKEN, KNOWN, FOREIGN, UNUSABLE = "taken", "known already", "not a llama-server's", "not usable"
COPIED_BYTES = 4 << 30  # of a core whose slim copy says something else: larger ones stay where they are
RAISE = (
    "cut by systemd-coredump: raise ProcessSizeMax= and ExternalSizeMax= in /etc/systemd/coredump.conf "
    "(both count; 2 GiB before systemd 252)"
)
_CUT = "cut: a full disk, RLIMIT_CORE, or a copy that was interrupted"


@dataclass(frozen=True)
class Outcome:
    """``state``: one of the words above; ``words``: one line; ``name`` of the capture."""

    state: str
    words: str
    name: str | None = None


def take(found: Found, store: Path, reserve: int = limits.RESERVE) -> Outcome:
    """One capture of it, if there is none yet. Raises UserError when the store takes none."""
    there = captures(store)
    known = known_already(found, there)
    if known is not None:
        return Outcome(KNOWN, f"{found.where}: {KNOWN}, {known.id}", known.id)
    if found.path is None:
        return _written(found, None, None, store, reserve)
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="llama-blackbox-") as folder:
        try:
            held = stack.enter_context(_held(found, found.path))
            core_path = stack.enter_context(opened(_core_file(found.path, held, Path(folder))))
            core = read_core(core_path, str(found.path))
        except UserError as problem:
            return Outcome(UNUSABLE, f"{found.where}: {problem.what}; {problem.remedy}")
        if not core_is_servers(core_path):
            return Outcome(FOREIGN, f"{found.where}: {FOREIGN} (no llama.cpp code is mapped in it)")
        known = known_already(_with_core(found, core), there)
        if known is not None:
            return Outcome(KNOWN, f"{found.where}: {KNOWN}, {known.id}", known.id)
        return _written(_with_core(found, core), core, core_path, store, reserve)


@contextmanager
def _held(found: Found, path: Path) -> Iterator[Path]:
    """The file, opened once: everything reads this one, whatever is put in its place. Raises UserError: it
    is a link, gone, or not the one that was looked at."""
    try:
        descriptor = os.open(path, OPEN_FLAGS)
    except OSError as problem:
        why = (problem.strerror or "error").lower()
        raise UserError(f"cannot be opened ({why})", where=str(path), remedy="left alone") from None
    try:
        now = os.fstat(descriptor)
        other = found.identity is not None and identity_of(now) != found.identity
        if other or not stat.S_ISREG(now.st_mode):
            what = "another file than the one that was looked at" if other else "no plain file"
            raise UserError(what, where=str(path), remedy="left alone")
        yield by_descriptor(descriptor)
    finally:
        os.close(descriptor)


def _core_file(path: Path, held: Path, folder: Path) -> Path:
    """The core itself, or what a report (told by its name) carries."""
    return core_file(path, folder) if path.suffix == REPORT_SUFFIX else held


def _name(found: Found, store: Path) -> str:
    """As the crash path names captures; another death of that second and PID gets a mark."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(found.wall))
    name = f"{moment}-{found.pid or 0}-{found.start_ticks or 0}"
    return f"{name}-{crc32(os.fsencode(found.where)):08x}" if (store / name).exists() else name


def _with_core(found: Found, core: Core) -> Found:
    exe = find_executable(core).main
    return replace(found, pid=found.pid or core.pid, signal=core.signal or found.signal, exe=found.exe or exe)


def _written(found: Found, core: Core | None, core_path: Path | None, store: Path, reserve: int) -> Outcome:
    try:
        place = open_store(str(store), reserve)
        name = _name(found, store)
        folder = begin(place, name, _trace(found))
    except RefusedError as problem:
        raise UserError(
            str(problem), where=str(store), remedy="make room: llama-blackbox capture adopt"
        ) from None
    at = store / f"{PARTIAL}{name}"
    try:
        gaps = (
            _core_into(folder, at, found, core, core_path)
            if core is not None and core_path
            else [*found.notes]
        )
        told = _manifest(found, core, gaps, at)
        folder.write(MANIFEST, (json.dumps(told, indent=1, ensure_ascii=True) + "\n").encode("ascii"))
        folder.finish()
    except OSError as problem:
        shutil.rmtree(at, ignore_errors=True)
        raise UserError(
            (problem.strerror or "error").lower(), where=str(store), remedy="make room, then run it again"
        ) from None
    finally:
        os.close(folder.descriptor)
        os.close(place)
    return Outcome(TAKEN, f"{found.where}: {TAKEN} as {name}" + "".join(f"; {gap}" for gap in gaps), name)


def _core_into(folder: Folder, at: Path, found: Found, core: Core, source: Path) -> list[str]:
    """Write the minimal core, and the whole one where the two do not tell the same; what is missing."""
    gaps = [*found.notes]
    if core.cut or found.truncated:
        gaps.append(RAISE if found.origin == SYSTEMD else _CUT)
    descriptor = folder.create(CORE)
    try:
        gaps += slim(source, descriptor).notes
        os.fsync(descriptor)
    except ValueError as problem:
        folder.remove(CORE)
        return [*gaps, f"core: {problem}"]
    finally:
        os.close(descriptor)
    why = difference(source, at / CORE, None, pass_fds=_passed(source))
    if why is not None:
        gaps.append(f"slim core: {why}; " + _whole_too(folder, source))
    return gaps


def _passed(source: Path) -> tuple[int, ...]:
    """The descriptor in a name of ``by_descriptor``: a tool that opens that name has to have it as well."""
    return (int(source.name),) if source.parent == by_descriptor(0).parent else ()


def _whole_too(folder: Folder, source: Path) -> str:
    size = source.stat().st_blocks * 512
    if size > COPIED_BYTES:
        return f"the whole one ({size} bytes) was left where it is"
    target = folder.create(FULL_CORE)
    at = 0
    try:
        with source.open("rb") as file:
            while data := file.read(1 << 20):
                write_sparse(target, data, at)
                at += len(data)
        os.ftruncate(target, at)
        os.fsync(target)
    except OSError as problem:
        folder.remove(FULL_CORE)
        return f"the whole one could not be copied ({problem.strerror})"
    finally:
        os.close(target)
    return "the whole one was copied as well"


def _trace(found: Found) -> dict[str, object]:
    """As the crash path's: an import that is killed is told from a handler that was."""
    return {
        "schema": "llama-blackbox/capture-trace/1",
        "state": "begun",
        "pid": found.pid,
        "start_ticks": found.start_ticks,
        "boot_id": found.boot_id,
        "signal": found.signal,
        "time": int(found.wall),
        "handler": os.getpid(),
        "at": int(time.time()),
        "mode": found.origin,
        "mark": "imported",
        "program": found.exe or "",
    }


def _manifest(found: Found, core: Core | None, gaps: list[str], folder: Path) -> Mapping[str, Any]:
    looked = found.path.stat() if found.path is not None else None
    files = listed(folder)
    return {
        "schema": SCHEMA,
        "mode": WATCH if found.origin == WATCH else "import",
        "mark": "llama.cpp's code is mapped" if core is not None else "by its name",
        "crash": {
            "signal": found.signal,
            "code": core.si_code if core is not None else None,
            "address": core.fault_address if core is not None else None,
            "tid": core.threads[0].tid if core is not None and core.threads else None,
            "ns_pid": core.pid if core is not None else None,
            "time": int(found.wall),
            "program": found.exe or "",
        },
        "process": {
            "pid": found.pid,
            "start_ticks": found.start_ticks,
            "ticks_per_second": os.sysconf("SC_CLK_TCK"),
            "boot_id": _dashed(found.boot_id),
            "exe": {"path": found.exe or "", "build_id": None},
            "build_ids": dict(core.build_ids) if core is not None else {},
        },
        "unit": found.unit,
        "core": {"file": CORE, "threads": len(core.threads)} if core is not None and CORE in files else None,
        "full_core": {"file": FULL_CORE, "whole": not core.cut}
        if core is not None and FULL_CORE in files
        else None,
        "imported": {
            "from": found.origin,
            "path": str(found.path) if found.path is not None else None,
            "size": looked.st_size if looked is not None else None,
            "mtime_ns": looked.st_mtime_ns if looked is not None else None,
            "at": int(time.time()),
        },
        "files": files,
        "gaps": [{"part": "import", "why": gap} for gap in gaps],
    }


def _dashed(boot_id: str | None) -> str | None:
    """As the kernel writes it."""
    text = bare(boot_id)
    if len(text) != 32:
        return boot_id
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
