"""The options of `llama-blackbox capture`, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Prefix = Annotated[Path, typer.Option(help="folder of the installation: only root may write there")]
Store = Annotated[Path | None, typer.Option(help="the captures' folder; without it: the installation's")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show each change and make none")]
Force = Annotated[
    bool, typer.Option("--force", help="remove: also where somebody changed it since; bundle: replace FILE")
]
Shape = Annotated[
    str, typer.Option(help="pipe: a handler per crash; socket: one server; watch: plain core files")
]
Mode = Annotated[
    str, typer.Option(help="minimal: stacks and small memory; full: the whole core, slimmed after")
]
Names = Annotated[
    list[str] | None, typer.Option("--name", help="one more file name of a server's program; may be repeated")
]
Python = Annotated[
    str | None, typer.Option(help="the interpreter the kernel starts; only root may change it")
]
Persist = Annotated[
    bool,
    typer.Option("--persist/--no-persist", help="write a sysctl.d file, so that it holds after a reboot"),
]
PipeLimit = Annotated[int, typer.Option(help="handlers at once, kernel.core_pipe_limit (pipe)")]
Socket = Annotated[str | None, typer.Option(help="the socket's path (socket)")]
Folders = Annotated[list[Path], typer.Argument(metavar="DIR", help="folders that cores are written to")]
Once = Annotated[bool, typer.Option("--once", help="take what is complete now, then end")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Id = Annotated[str, typer.Argument(metavar="ID", help="a capture's name, its beginning, a PID, or newest")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="the bundle to write (.tar.zst, or a folder)")
]
Private = Annotated[
    bool,
    typer.Option("--include-private", help="nothing redacted, and the core itself: keys, prompts, memory"),
]
JournalFolder = Annotated[
    Path | None, typer.Option("--journal", help="a journal folder instead of this host's")
]
Things = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATH", help="cores, or folders with cores; without one: systemd's and apport's"),
]
Coredumps = Annotated[Path, typer.Option("--coredumps", help="systemd-coredump's folder")]
Reports = Annotated[Path, typer.Option("--apport", help="apport's folder")]
