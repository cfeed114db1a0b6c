"""`llama-blackbox triage [INPUT…]`: evidence in, verdict out, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analyzers.cli.hosting import Selection
from analyzers.cli.triaging import carry_out
from analyzers.errors import UserError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(help="cores, server logs, journal exports or JSON, kernel lines, traces, bundles"),
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
    html: Annotated[Path | None, typer.Option(help="write a self-contained page to this file")] = None,
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

    Without an input: the newest death of a llama-server on this host.
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
        selection=selection,
    )
