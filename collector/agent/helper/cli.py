"""`llama-blackbox watch-helper`: the small privileged process beside the unprivileged agent."""

from __future__ import annotations

import grp
import os
import signal
import socket
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from analyzers.cli.output import for_a_reader
from analyzers.errors import EXIT_OK, UserError

app = typer.Typer(add_completion=False, rich_markup_mode=None)
FIRST_HANDED = 3  # SD_LISTEN_FDS_START, sd_listen_fds(3)
GROUP = "llama-blackbox"


@app.command()
def run(
    socket_path: Annotated[Path | None, typer.Option("--socket", help="where to listen")] = None,
    group: Annotated[str, typer.Option(help="the agent's group: who else may ask")] = GROUP,
) -> int:
    """Do for the agent what only root may: see every server, open its logs, its network, the kernel's log.

    Started by llama-blackbox-helper.socket it takes that socket; else it listens at --socket. It serves a
    fixed list of requests about servers that it found itself, to root and to the group. Exit status: 0 told
    to stop, 2 it cannot listen.
    """
    with for_a_reader():
        _serve(_listener(socket_path, _number(group)), _number(group))
    return EXIT_OK


def _serve(listener: socket.socket, group: int) -> None:
    from collector.agent.helper.serving import Helper
    from collector.agent.service.notify import Notifier
    from collector.discovery.watch import Discovery

    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda which, _: told.append(which))
    discovery, manager = Discovery(), Notifier()
    helper = Helper(listener, discovery, groups=frozenset({group}))
    helper.step(0)
    manager.ready("serving")
    alive = 0.0
    while not told:
        helper.step()
        if manager.watchdog_seconds is not None and time.monotonic() - alive > manager.watchdog_seconds / 3:
            alive = time.monotonic()
            manager.alive()
            manager.status(f"{helper.clients} clients, {len(discovery.known())} servers")
    manager.stopping()
    helper.close()
    discovery.close()


def _number(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        remedy = "create it (deploy/agent/llama-blackbox-agent.sysusers.conf) or give --group"
        raise UserError("no such group", where=group[:64], remedy=remedy) from None


def _listener(path: Path | None, group: int) -> socket.socket:
    handed = _handed(os.environ)
    if handed is not None:
        return handed
    if path is None:
        raise UserError("nowhere to listen", where="watch-helper", remedy="give --socket PATH")
    from collector.agent.helper.serving import listen

    try:
        return listen(path, group)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UserError(f"cannot listen ({reason})", where=str(path), remedy="run it as root") from None


def _handed(environ: Any) -> socket.socket | None:
    """The socket that the manager opened, None when there is none for this process."""
    if environ.get("LISTEN_PID") != str(os.getpid()) or environ.get("LISTEN_FDS") != "1":
        return None
    os.set_inheritable(FIRST_HANDED, False)
    link = socket.socket(fileno=FIRST_HANDED)
    if link.family != socket.AF_UNIX or link.type != socket.SOCK_SEQPACKET:
        raise UserError(
            "not a SOCK_SEQPACKET socket", where="LISTEN_FDS", remedy="use ListenSequentialPacket="
        )
    return link
