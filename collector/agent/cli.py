"""`llama-blackbox watch`: the monitoring agent."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from analyzers.cli.output import for_a_reader
from analyzers.errors import EXIT_OK
from collector.agent.config.load import DEFAULT_FILE, load_config
from collector.agent.service.journal_log import Log

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
    with for_a_reader():
        settings = load_config(config)
        if check_config:
            print("the settings can be used")
            return EXIT_OK
        from collector.agent.assembly import assemble
        from collector.agent.service.running import serve

        log = Log(settings.agent.log_level, prefixed=not sys.stderr.isatty())
        parts = assemble(settings, outbox, log)
        with stopping() as told:
            serve(parts, settings, lambda: load_config(config), log, told, once=once)
    return EXIT_OK


class Told:
    """What signals asked for. ``fileno`` becomes readable with each."""

    def __init__(self) -> None:
        self.stop = self.reload = False
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def fileno(self) -> int:
        return self._read.fileno()

    def take(self) -> None:
        """Empty the descriptor."""
        try:
            while self._read.recv(64):
                continue
        except BlockingIOError:
            return

    def signalled(self, number: int, _: object) -> None:
        """SIGHUP reads the settings again; anything else ends."""
        if number == signal.SIGHUP:
            self.reload = True
        else:
            self.stop = True
        try:
            self._write.send(b"x")
        except OSError:
            return

    def close(self) -> None:
        self._read.close()
        self._write.close()


@contextmanager
def stopping() -> Iterator[Told]:
    """Signals become flags for as long as this lasts."""
    told = Told()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, told.signalled) for number in numbers}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        told.close()
