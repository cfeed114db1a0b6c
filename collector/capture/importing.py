"""`capture import`: what systemd-coredump, apport and container runtimes left, into the store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from collector.capture.intake.files import in_files, of_file
from collector.capture.intake.found import Found, merged
from collector.capture.intake.systemd import in_systemd
from collector.capture.intake.take import FOREIGN, Outcome, take
from collector.gather.corefiles import apport_reports
from collector.gather.journal import Journal


def found_in(
    things: Sequence[Path], journal: Path | None, coredumps: Path, apport: Path
) -> tuple[list[Found], list[Gap]]:
    """Those at ``things``, else the host's own stores. Raises UserError: one cannot be looked at."""
    if things:
        return [found for thing in things for found in in_files(thing.absolute())], []
    rows, gaps = in_systemd(Journal(journal), coredumps)
    reports = [of_file(kept.path, os.lstat(kept.path)) for kept in apport_reports(apport)]
    return merged([*rows, *reports]), gaps


def run(rows: Sequence[Found], store: Path, reserve: int) -> list[Outcome]:
    """One outcome for each; foreign ones are told only where they were named one by one."""
    outcomes = [_one(found, store, reserve) for found in rows]
    return [one for one in outcomes if one.state != FOREIGN or len(rows) == 1]


def _one(found: Found, store: Path, reserve: int) -> Outcome:
    try:
        return take(found, store, reserve)
    except OSError as problem:
        reason = (problem.strerror or "error").lower()
        raise UserError(reason, where=found.where, remedy="run it as root, with room in the store") from None
