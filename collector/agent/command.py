"""What `llama-blackbox watch` does, and the short way to it: without typer the agent is 8 MB smaller."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from analyzers.cli.output import for_a_reader
from analyzers.errors import EXIT_OK
from collector.agent.config.load import load_config
from collector.agent.service.journal_log import Log

VALUES = ("--config", "--outbox")


def plainly(args: Sequence[str]) -> int | None:
    """Carry out a command line of settings and outbox alone; None for any other one, which typer reads."""
    told: dict[str, Path] = {}
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        value = value if equals else next(words, "")
        if name not in VALUES or not value or value.startswith("-"):
            return None
        told[name] = Path(value)
    return carry_out(told.get("--config"), told.get("--outbox"))


def carry_out(
    config: Path | None, outbox: Path | None, *, check_config: bool = False, once: bool = False
) -> int:
    """Watch until told to stop; returns the exit status. Raises UserError for settings or an outbox that
    cannot be used."""
    with for_a_reader():
        settings = load_config(config)
        if check_config:
            print("the settings can be used")
            return EXIT_OK
        from collector.agent.assembly import assemble
        from collector.agent.service.running import serve
        from collector.agent.service.signals import stopping

        log = Log(settings.agent.log_level, prefixed=not sys.stderr.isatty())
        parts = assemble(settings, outbox, log)
        with stopping() as told:
            serve(parts, settings, lambda: load_config(config), log, told, once=once)
    return EXIT_OK
