"""Writes a finished run where the user asked for it, and says what it found."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyzers.contracts.trials import TrialRun
from analyzers.errors import UserError
from collector.lab.verify.findings import exit_status
from collector.lab.verify.options import Outputs


def deliver(run: TrialRun, outputs: Outputs) -> int:
    """Print the findings, write what was asked for, and give the exit status."""
    console = Console(highlight=False, file=sys.stderr if outputs.json == "-" else sys.stdout)
    print_findings(run, console)
    text = run.model_dump_json(by_alias=True, exclude_none=True, indent=2)
    if outputs.json == "-":
        print(text)
    elif outputs.json:
        write(Path(outputs.json), text + "\n")
    if outputs.junit:
        from collector.lab.verify.junit import junit_xml

        write(outputs.junit, junit_xml(run))
    if outputs.reproducer:
        from collector.lab.verify.reproducer import write_reproducer

        for path in write_reproducer(run, outputs.reproducer):
            console.print(Text(f"reproducer: {path}"), soft_wrap=True)
    if outputs.update_catalogue:
        from collector.lab.verify.overlay import update_overlay

        console.print(Text(f"catalogue overlay: {update_overlay(run)}"), soft_wrap=True)
    return exit_status(run.findings)


def print_findings(run: TrialRun, console: Console) -> None:
    table = Table(expand=False)
    for head in ("defect", "conclusion", "shown", "reached", "trials", "why"):
        table.add_column(head, overflow="fold")
    for each in run.findings:
        bound = f"; at most {each.upper_bound:.1%} at 95 %" if each.upper_bound is not None else ""
        cells = (each.defect, each.conclusion, str(each.shown), str(each.reached), str(each.trials))
        table.add_row(*map(Text, (*cells, each.because + bound)))
    console.print(table)
    console.print(
        f"{len(run.trials)} trials in {run.seconds:.1f} s{' (interrupted)' if run.interrupted else ''}"
    )


def write(path: Path, text: str) -> None:
    """Raises UserError when the file cannot be written; a full disk leaves no half file under that name."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UserError(
            f"cannot be written ({error.strerror})",
            where=str(path),
            remedy="name a file in a writable folder",
        ) from None
