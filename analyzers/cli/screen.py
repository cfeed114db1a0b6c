"""The verdict on a terminal: at once and whole; then what takes longer."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.cli.output import for_a_reader, printing
from analyzers.privacy.visible import visible
from analyzers.triage.run import Triage, finish

if TYPE_CHECKING:
    from analyzers.cli.hosting import Selection


def show(result: Triage, *, details: bool, command: str | None) -> Triage:
    """Print the report. Of several incidents the table and one verdict, unless ``details`` or the number of
    one was asked for; then gdb and the hashes wait until they are. Returns what is known in the end."""
    from rich.console import Console

    from analyzers.render.deaths import several
    from analyzers.render.terminal import render_follow_up, render_terminal

    one = result.options.incident is not None
    whole = details or one or not several(result.report)
    console = Console(highlight=False)
    with for_a_reader(), printing():
        render_terminal(result.report, console, details=whole, table=not one, command=command)
    if not result.pending or not whole:
        return result
    with Console(stderr=True).status("asking gdb and hashing the inputs (the verdict above stands)"):
        done = finish(result)
    with for_a_reader(), printing():
        render_follow_up(done.report, console, before=result.report)
    return done


def typed(
    inputs: Sequence[Path], options: Sequence[tuple[str, object]], selection: Selection | None
) -> str | None:
    """The command line as it can be given again, without what only forms its output.

    None where it cannot be: standard input is read; a path would tell more than a file's name; or a name
    holds a character that a line cannot show as it is (a newline, an escape, a mark that turns the text).
    """
    chosen = asdict(selection) if selection is not None and not inputs else {}
    given = [*options, *((f"--{name}", value) for name, value in chosen.items())]
    parts = [str(path) for path in inputs]
    for name, value in given:
        parts += [name] if value is True else [name, str(value)] if value not in (None, False) else []
    if any(part == "-" or part.startswith(("/", "~")) or visible(part) != part for part in parts):
        return None
    return shlex.join(["llama-blackbox", "triage", *parts])
