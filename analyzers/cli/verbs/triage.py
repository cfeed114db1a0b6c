"""`llama-blackbox triage [INPUT…]`: evidence in, verdict out, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analyzers.cli.hosting import Selection
from analyzers.cli.triaging import carry_out
from analyzers.errors import UserError

INPUTS = (
    "any mix, told by content: cores (also packed or cut), server logs, journals (journalctl in any form, or "
    "raw files), kernel logs, docker and kubectl logs, stack traces, coredumpctl, systemctl, inspect and ss "
    "texts, pasted issues, bundles, folders, zip archives; - is standard input"
)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(help=INPUTS),
    ] = None,
    exe: Annotated[
        Path | None, typer.Option(help="the executable of the core, when it is not where it was")
    ] = None,
    symbols: Annotated[
        list[Path] | None,
        typer.Option(help="a folder of program or symbol files for the core; may be repeated"),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="print the report as JSON (llama-blackbox/report/1)")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="print Markdown for a bug report")] = False,
    html: Annotated[
        Path | None, typer.Option(help="write a self-contained page to this file; - is standard output")
    ] = None,
    incident: Annotated[
        int | None, typer.Option(min=1, help="of several incidents: this one of the table, whole")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="of several incidents: stacks, timeline and evidence as well")
    ] = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="leave out what follows the verdict: hash and gdb")
    ] = False,
    include_private: Annotated[
        bool, typer.Option("--include-private", help="do not redact prompts, keys and paths")
    ] = False,
    unit: Annotated[
        str | None, typer.Option(help="on this host: the newest death of this systemd unit")
    ] = None,
    pid: Annotated[int | None, typer.Option(help="on this host: this process, dead or alive")] = None,
    since: Annotated[
        str | None, typer.Option(help="on this host: deaths after this, like 2h or '2026-12-01 10:00'")
    ] = None,
    boot: Annotated[
        str | None, typer.Option(help="on this host: deaths of this boot, like 0, -1 or its id")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="on this host: a journal folder instead of its own")
    ] = None,
) -> int:
    """Say what happened, where and why, from any mix of evidence. Nothing given is ever changed.

    Several deaths give one table, the verdict of the best-founded one and what to do.

    Without an input: the newest death of a llama-server on this host, or as --unit, --pid, --since and --boot
    say.

    Exit status: 0 a verdict, 3 undetermined, 2 an input cannot be used.
    """
    selection = Selection(unit, pid, since, boot, journal)
    if inputs and selection.options:
        what = f"{', '.join(selection.options)} and inputs exclude each other"
        raise UserError(what, where="triage", remedy="give the one or the other")
    return carry_out(
        inputs or [],
        exe=exe,
        symbols=symbols or (),
        json=json,
        markdown=markdown,
        html=html,
        fast=fast,
        include_private=include_private,
        incident=incident,
        details=details,
        selection=selection,
    )
