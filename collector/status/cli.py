"""`llama-blackbox status`: what every server of this host is doing, as the agent sees it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from analyzers.cli.output import for_a_reader, printable_json, printing
from analyzers.contracts.outbox_read import open_reading
from analyzers.errors import EXIT_OK
from collector.incidents.find import default_folder
from collector.status.picture import Picture, look

SCHEMA = "llama-blackbox/status/1"
EVERY = 1.0  # seconds between two pictures: the agent looks once a second
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    outbox: Annotated[
        Path | None,
        typer.Option("--outbox", help="the outbox's folder; without it: this host's, or the user's"),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="one picture, then end; the default in a pipe")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=f"print JSON, schema {SCHEMA}")] = False,
) -> int:
    """Servers with their states, the last half hour of each, and the last incidents; live in a terminal.

    Ctrl-C ends it. Exit status: 0, also when something is wrong with a server; 2 there is no outbox.
    """
    folder = outbox or default_folder()
    if as_json:
        with open_reading(folder) as store, printing(), for_a_reader():
            print(_json(look(store, time.time())))
        return EXIT_OK
    if once or not sys.stdout.isatty():
        _once(folder)
    else:
        _live(folder)
    return EXIT_OK


def _once(folder: Path) -> None:
    from rich.console import Console

    from collector.status.render import render

    with open_reading(folder) as store:
        picture = look(store, time.time())
    with printing(), for_a_reader():
        render(picture, Console(highlight=False))


def _live(folder: Path) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from collector.status.render import render

    console = Console(highlight=False)

    def frame() -> Text:
        drawn = Console(highlight=False, width=console.width, no_color=console.no_color, force_terminal=True)
        with open_reading(folder) as store, drawn.capture() as text:
            render(look(store, time.time()), drawn)
        return Text.from_ansi(text.get())

    try:
        with Live(frame(), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(EVERY)
                live.update(frame(), refresh=True)
    except KeyboardInterrupt:
        return


def _json(picture: Picture) -> str:
    servers: list[dict[str, Any]] = [
        {"name": one.name, "state": one.state, "seconds": round(one.seconds, 1), "about": dict(one.about)}
        for one in picture.servers
    ]
    incidents = [
        {"id": row.id, "kind": row.kind, "state": row.state, "opened": row.opened}
        for row in picture.incidents
    ]
    told = {
        "schema": SCHEMA,
        "agent": {
            "written_seconds_ago": picture.age,
            "dropped": dict(picture.dropped),
            "problems": picture.problems,
        },
        "servers": servers,
        "incidents": incidents,
    }
    return printable_json(json.dumps(told, indent=2, ensure_ascii=False))
