"""The options of `llama-blackbox collect`, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="the bundle to write (.tar.zst, or a folder)")
]
Unit = Annotated[
    str | None, typer.Option(help="the newest death of this systemd unit, else its living server")
]
Pid = Annotated[int | None, typer.Option(help="this process, dead or alive")]
Since = Annotated[str | None, typer.Option(help="deaths after this: 2h, '2026-12-01 10:00', @UNIXSECONDS")]
Boot = Annotated[str | None, typer.Option(help="deaths of this boot: 0, -1, or its id")]
Live = Annotated[
    bool, typer.Option("--live", help="look twice at a server that hangs; needs --pid or --unit")
]
Seconds = Annotated[float | None, typer.Option(help="--live: between the two looks")]
Stacks = Annotated[
    bool,
    typer.Option("--stacks/--no-stacks", help="--live: native stacks; each thread stops for milliseconds"),
]
Metrics = Annotated[
    bool, typer.Option("--metrics", help="--live: also GET /metrics, which pokes the server's loop")
]
Port = Annotated[int | None, typer.Option(help="--live: the TCP port it serves, where that is not clear")]
Prefix = Annotated[
    str | None, typer.Option(help="--live: what it was told by --api-prefix, where that cannot be read")
]
KeyFile = Annotated[Path | None, typer.Option(help="--live: file with the server's API key")]
WithCore = Annotated[
    bool, typer.Option("--with-core", help="take the core itself in: memory, keys and prompts")
]
Private = Annotated[
    bool, typer.Option("--include-private", help="do not redact prompts, keys and home folders")
]
Force = Annotated[bool, typer.Option("--force", help="replace an existing bundle")]
JournalFolder = Annotated[Path | None, typer.Option(help="a journal folder instead of this host's own")]
