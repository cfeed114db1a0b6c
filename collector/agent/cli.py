"""`llama-blackbox watch`: the monitoring agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from collector.agent.command import carry_out
from collector.agent.config.load import DEFAULT_FILE

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    config: Annotated[Path | None, typer.Option(help=f"settings, {DEFAULT_FILE} when it is there")] = None,
    outbox: Annotated[Path | None, typer.Option(help="where to keep what is found")] = None,
    check_config: Annotated[bool, typer.Option("--check-config", help="read the settings and stop")] = False,
    once: Annotated[bool, typer.Option("--once", help="one look at everything, then end")] = False,
) -> int:
    """Watch every llama-server of this host and disturb none, until it is told to stop (SIGTERM).

    SIGHUP reads the settings again. Exit status: 0 stopped as asked, 2 the settings or the outbox cannot be
    used.
    """
    return carry_out(config, outbox, check_config=check_config, once=once)
