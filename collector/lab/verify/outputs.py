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
from collector.lab.verify.options import STDOUT, Outputs
from collector.lab.verify.progress import Voice
from collector.lab.verify.writable import demand_file, demand_plain, reason, unwritable

CELL_LENGTH = 300


def printable_xml(text: str) -> str:
    """XML that is the same to a parser, steers no terminal, and suits any encoding of standard output."""
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


class EndedEarlyError(UserError):
    """What ended the run early, once more as its last line and exit status."""

    def __init__(self, line: str) -> None:
        Exception.__init__(self, line)


def demand_writable(outputs: Outputs) -> None:
    """Raises UserError for an output that will not be writable: before minutes of trials, not after."""
    _demand_one_each(outputs)
    for name in outputs.files.values():
        if name != STDOUT:
            demand_file(Path(name))
    if outputs.reproducer is not None:
        from collector.lab.verify.reproducer import demand_new

        demand_new(outputs.reproducer)
    if outputs.update_catalogue:
        from collector.lab.verify.overlay import demand_updatable

        demand_updatable()


def _demand_one_each(outputs: Outputs) -> None:
    """Two documents in one place would be none; a folder is no stream."""
    seen: dict[str, str] = {}
    for option, name in outputs.files.items():
        if not name:
            raise UserError("no file is named", where=option, remedy="name one; - is standard output")
        place = name if name == STDOUT else os.path.abspath(name)
        if place in seen:
            raise UserError(
                f"{seen[place]} goes there already",
                where=f"{option} {printable(name)}",
                remedy="give each a place of its own",
            )
        seen[place] = option
    folders = {"--output": outputs.folder, "--reproducer": outputs.reproducer}
    for option, folder in folders.items():
        if folder is not None and str(folder) == STDOUT:
            raise UserError("this is a folder, not a stream", where=f"{option} -", remedy="name a new folder")
    if outputs.on_stdout and getattr(sys.stdout, "name", None) == os.devnull:  # as prepare_streams opens it
        raise UserError("it is closed", where="standard output", remedy="give a file in place of -")


def voice_for(outputs: Outputs) -> Voice:
    """What is said besides the documents: on standard error where one of them is on standard output."""
    return Voice(highlight=False, file=sys.stderr if outputs.on_stdout else sys.stdout)


def deliver(run: TrialRun, outputs: Outputs, voice: Voice | None = None) -> int:
    """Print the findings, write what was asked for, and give the exit status.

    Every output is tried before the first that failed is raised as UserError, so that a full disk under
    one does not take the others. An interrupted run has no verdict: 130, whatever it found. Raises UserError
    for a run that ended early, unless it showed a defect before.
    """
    voice = voice or voice_for(outputs)
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
    if outputs.json is not None:
        json = outputs.json
        yield lambda: put(json, dumped(run, indent=2) + "\n", printable_json)
    if outputs.junit is not None:
        junit = outputs.junit
        yield lambda: _write_junit(run, junit)
    if outputs.reproducer:
        folder = outputs.reproducer
        yield lambda: _write_reproducer(run, folder, voice)
    if outputs.update_catalogue:
        yield lambda: _update_overlay(run, voice)


def put(name: str, text: str, shown: Callable[[str], str] = printable_xml) -> None:
    """Write ``text`` into the file ``name``, or as ``shown`` makes it on standard output.

    Raises UserError as ``write``, and for a standard output that cannot be written.
    """
    if name != STDOUT:
        write(Path(name), text)
        return
    with printing():
        print(shown(text), end="")


def _write_junit(run: TrialRun, name: str) -> None:
    from collector.lab.verify.junit import junit_xml

    put(name, junit_xml(run))


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
        raise _unprintable(reason(error)) from None
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
        raise unwritable(path, f"cannot be written ({reason(error)})") from None


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
