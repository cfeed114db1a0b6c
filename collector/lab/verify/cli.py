"""`llama-blackbox verify`: one command per method."""

from __future__ import annotations

from collections.abc import Callable

import typer

from collector.lab.verify.directed.cli import directed
from collector.lab.verify.leak.cli import leak
from collector.lab.verify.pinned.cli import pinned
from collector.lab.verify.routes.cli import routes

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback()
def verify() -> None:
    """Show a defect on a real server, or bound how often it can still be there.

    Exit status: 0 sound, 1 a defect was found, 2 server or command line unusable, 125 inconclusive, 130
    interrupted.
    """


# What fits into one line of the list; each method's own help says more.
METHODS: dict[Callable[..., int], str] = {
    directed: "D1 to D3 without luck: gdb holds a request until sleep",
    pinned: "D1 to D3 by timing: the sleep falls into a request",
    routes: "what each call does to a server, asleep or awake",
    leak: "D5: does a draft model stay in memory asleep?",
}
for command, short in METHODS.items():
    app.command(short_help=short)(command)
