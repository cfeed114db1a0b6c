"""Writes a finished run where the user asked for it, and says what it found."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.table import Table
from rich.text import Text

from analyzers.cli.output import printable_json, printing
from analyzers.contracts.trials import EXIT_DEFECT, EXIT_INTERRUPTED, Finding, TrialRun
from analyzers.errors import UserError
from collector.lab.reference.output import printable
from collector.lab.verify.findings import exit_status
from collector.lab.verify.keep import dumped
from collector.lab.verify.options import Outputs
from collector.lab.verify.progress import Voice

CELL_LENGTH = 300


class EndedEarlyError(UserError):
    """What ended the run early, once more as its last line and exit status."""

    def __init__(self, line: str) -> None:
        Exception.__init__(self, line)


def demand_writable(outputs: Outputs) -> None:
    """Raises UserError for an output that will not be writable: before minutes of trials, not after."""
    for path in (outputs.junit, Path(outputs.json) if outputs.json and outputs.json != "-" else None):
        if path is not None and not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
            raise _unwritable(path, "its folder is missing or may not be written to")
        if path is not None:
            demand_plain(path)
    if outputs.reproducer is not None:
        from collector.lab.verify.reproducer import demand_new

        demand_new(outputs.reproducer)


def demand_plain(path: Path) -> None:
    """Raises UserError when ``path`` is there and is a link or no regular file."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise _unwritable(path, "this is a link, or no regular file")


def deliver(run: TrialRun, outputs: Outputs) -> int:
    """Print the findings, write what was asked for, and give the exit status.

    Every output is tried before the first that failed is raised as UserError, so that a full disk under
    one does not take the others. An interrupted run has no verdict: 130, whatever it found. Raises UserError
    for a run that ended early, unless it showed a defect before.
    """
    voice = Voice(highlight=False, file=sys.stderr if outputs.json == "-" else sys.stdout)
    problems: list[UserError] = []
    for write_one in (lambda: print_findings(run, voice), *_writers(run, outputs, voice)):
        try:
            write_one()
        except UserError as error:
            problems.append(error)
    for other in problems[1:]:
        voice.tell(str(other))
    if problems:
        raise problems[0]
    return _status(run)


def _status(run: TrialRun) -> int:
    if run.interrupted:
        return EXIT_INTERRUPTED
    status = exit_status(run.findings)
    if run.problem is not None and status != EXIT_DEFECT:
        raise EndedEarlyError(run.problem)
    return status


def _writers(run: TrialRun, outputs: Outputs, voice: Voice) -> Iterator[Callable[[], None]]:
    if outputs.json == "-":
        yield lambda: _print_json(run)
    elif outputs.json:
        path = Path(outputs.json)
        yield lambda: write(path, dumped(run, indent=2) + "\n")
    if outputs.junit:
        junit = outputs.junit
        yield lambda: _write_junit(run, junit)
    if outputs.reproducer:
        folder = outputs.reproducer
        yield lambda: _write_reproducer(run, folder, voice)
    if outputs.update_catalogue:
        yield lambda: _update_overlay(run, voice)


def _print_json(run: TrialRun) -> None:
    with printing():
        print(printable_json(dumped(run, indent=2)))


def _write_junit(run: TrialRun, path: Path) -> None:
    from collector.lab.verify.junit import junit_xml

    write(path, junit_xml(run))


def _write_reproducer(run: TrialRun, folder: Path, voice: Voice) -> None:
    from collector.lab.verify.reproducer import shown_defects, write_reproducer

    if not shown_defects(run):
        voice.tell("no reproducer is written: this run showed none of the defects it could show")
        return
    for path in write_reproducer(run, folder):
        voice.tell(f"reproducer: {path}")


def _update_overlay(run: TrialRun, voice: Voice) -> None:
    from collector.lab.verify.overlay import update_overlay

    voice.tell(f"catalogue overlay: {update_overlay(run)}")


def print_findings(run: TrialRun, voice: Voice) -> None:
    """The findings as a table, and how much work stands behind them. Raises UserError on a full disk."""
    table = Table(expand=False)
    for head in ("defect", "conclusion", "shown", "reached", "trials", "why"):
        table.add_column(head, overflow="fold")
    for each in run.findings:
        table.add_row(*(Text(printable(cell, CELL_LENGTH)) for cell in _cells(each)))
    try:
        voice.print(table)
        cut = " (interrupted)" if run.interrupted else " (ended early)" if run.problem else ""
        count = len(run.trials)
        voice.tell(f"{count} {'trial' if count == 1 else 'trials'} in {run.seconds:.1f} s{cut}")
        voice.file.flush()
    except OSError as error:
        voice.give_up()
        raise _unprintable((error.strerror or "error").lower()) from None
    if voice.lost:
        raise _unprintable("no space left, or its reader went away")


def _unprintable(why: str) -> UserError:
    return UserError(
        f"the findings cannot be printed ({why})",
        where="standard output",
        remedy="free some space or send it elsewhere",
    )


def _cells(each: Finding) -> tuple[str, ...]:
    bound = f"; at most {each.upper_bound:.1%} at 95 %" if each.upper_bound is not None else ""
    by_the_way = "" if each.asked else " (met by the way)"
    counts = (str(each.shown), str(each.reached), str(each.trials))
    return (each.defect, each.conclusion, *counts, f"{each.because}{bound}{by_the_way}")


def write(path: Path, text: str) -> None:
    """Write ``text`` through a private draft, so that no reader and no full disk sees half of it.

    Raises UserError when it cannot be written, or when ``path`` is no regular file: a link is not followed.
    """
    try:
        demand_plain(path)
        _replace(path, text)
    except OSError as error:
        raise _unwritable(path, f"cannot be written ({(error.strerror or 'error').lower()})") from None


def _replace(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        draft.chmod(0o666 & ~_umask())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _umask() -> int:
    """What a file made by open() would have had: a private draft has fewer rights."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(path: Path, why: str) -> UserError:
    return UserError(why, where=str(path), remedy="name a file in a writable folder")
