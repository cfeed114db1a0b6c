"""`llama-blackbox triage INPUT…`: evidence in, verdict out, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analyzers.cli.triaging import carry_out

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="cores, server logs, journal exports or JSON, kernel lines, traces, bundles"),
    ],
    exe: Annotated[
        Path | None, typer.Option(help="the executable of the core, when it is not where it was")
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
) -> int:
    """Say what happened, where and why, from any mix of evidence. Nothing given is ever changed.

    Exit status: 0 a verdict, 3 undetermined, 2 an input cannot be used.
    """
    return carry_out(
        inputs,
        exe=exe,
        json=json,
        markdown=markdown,
        html=html,
        fast=fast,
        include_private=include_private,
    )
