"""`llama-blackbox verify`: one command per method."""

from __future__ import annotations

import typer

from collector.lab.verify.directed.cli import directed
from collector.lab.verify.leak.cli import leak
from collector.lab.verify.pinned.cli import pinned
from collector.lab.verify.routes.cli import routes

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback()
def verify() -> None:
    """Show a defect on a real server, or bound how often it can still be there.

    Exit status: 0 sound, 1 a defect was found, 2 server or command line unusable, 125 inconclusive.
    """


for command in (directed, pinned, routes, leak):
    app.command()(command)
