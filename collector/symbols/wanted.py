"""Which build-ids a report, a core or a build-id asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from analyzers.core.files import plain
from analyzers.errors import UserError
from analyzers.symbols.places import is_build_id

MAX_REPORT_BYTES = 64 << 20  # a report of a thousand incidents has 20 MB
MAX_WANTED = 64  # files asked for in one go; a hosted server maps about 60
CORE_MAGIC = b"\x7fELF"


def build_ids(thing: str) -> list[str]:
    """The build-ids of ``thing``: a build-id itself, a core's mapped files, or what a report names.

    The server's own code comes first. Raises UserError when it is none of these.
    """
    if is_build_id(thing.lower()) and not os.path.exists(thing):
        return [thing.lower()]
    path = Path(thing)
    if not path.is_file():
        remedy = "give a core, a report (triage --json) or a build-id of hexadecimal digits"
        raise UserError("neither a file nor a build-id", where=plain(thing), remedy=remedy)
    found = list(dict.fromkeys(_of_core(path) if _is_core(path) else _of_report(path)))
    if not found:
        remedy = "give the build-id itself: `eu-readelf -n PROGRAM` prints it"
        raise UserError("names no build-id", where=plain(thing), remedy=remedy)
    return found[:MAX_WANTED]


def _is_core(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == CORE_MAGIC
    except OSError as error:
        raise UserError(
            f"cannot be read ({error.strerror})", where=plain(str(path)), remedy="check its permissions"
        ) from error


def _of_core(path: Path) -> Iterator[str]:
    from analyzers.core.buildid import find_executable
    from analyzers.core.notes import read_core

    core = read_core(path)
    found = find_executable(core)
    first = [name for name in (found.server, found.main) if name]
    yield from (core.build_ids[name] for name in (*first, *core.build_ids) if name in core.build_ids)


def _of_report(path: Path) -> Iterator[str]:
    from pydantic import ValidationError

    from analyzers.contracts.report import Report

    if path.stat().st_size > MAX_REPORT_BYTES:
        raise UserError("too large for a report", where=plain(str(path)), remedy="give the core")
    try:
        report = Report.from_json(path.read_bytes())
    except ValidationError:
        remedy = "give what `llama-blackbox triage THING --json` printed, a core, or a build-id"
        raise UserError("neither a core nor a report", where=plain(str(path)), remedy=remedy) from None
    named = [report.process.build_id]
    for item in report.verdict.evidence:
        ids = item.data.get("build_ids")
        named += list(ids.values()) if isinstance(ids, dict) else []
        named += [frame.get("build_id") for frame in item.data.get("frames", ()) if isinstance(frame, dict)]
    yield from (one for one in named if isinstance(one, str) and is_build_id(one))
