"""``llama-blackbox explain [ID]``: the page of a defect, class, phase, cause, confidence or state."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyzers.catalogue.loader import Catalogue
from analyzers.catalogue.loader import catalogue as whole_catalogue
from analyzers.catalogue.model import Advice, Page, Section
from analyzers.catalogue.tables import printable
from analyzers.cli.output import printing
from analyzers.contracts.registry import NOT_YET_DIAGNOSED
from analyzers.errors import EXIT_OK, UserError

COMMAND_INDENT = 6
PLURALS = {
    "defect": "Defects",
    "class": "Classes",
    "phase": "Phases",
    "cause": "Causes",
    "confidence": "Confidences",
    "state": "States",
}

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    topic: Annotated[str | None, typer.Argument(help="an id such as D1, SEGV-UAF-SLEEP, asleep")] = None,
) -> int:
    """What a defect, class, phase, cause, confidence or state means; without an id, the list of all."""
    with printing():
        return explain(topic, Console(highlight=False))


def explain(topic: str | None, console: Console) -> int:
    """Print the page of ``topic``, or the list of all ids when it is None or blank. Returns the exit status.

    Raises UserError, with the nearest ids as the remedy, when there is no such page.
    """
    catalogue = whole_catalogue()
    if topic is None or not topic.strip():
        _print_list(catalogue, console)
        _print_notes(catalogue, console)
        return EXIT_OK
    page = catalogue.explain(topic)
    if page is None:
        asked = printable(topic.strip())
        raise UserError("there is no such page", where=asked, remedy=_remedy(catalogue, topic))
    _print_page(page, catalogue, console)
    return EXIT_OK


def _remedy(catalogue: Catalogue, topic: str) -> str:
    near = catalogue.suggest(topic)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}'llama-blackbox explain' lists all ids"


def _print_list(catalogue: Catalogue, console: Console) -> None:
    for kind, rows in catalogue.ids().items():
        console.print(Text(PLURALS.get(kind, kind), style="bold"))
        grid = _grid()
        for id, line in rows:
            note = " (not diagnosed yet)" if id in NOT_YET_DIAGNOSED else ""
            grid.add_row("", Text(id, style="cyan"), Text(line + note))
        console.print(grid)
        console.print()


def _print_page(page: Page, catalogue: Catalogue, console: Console) -> None:
    console.print(Text.assemble((page.id, "bold cyan"), f"  {page.kind}"))
    console.print(Text(page.title, style="bold"))
    if page.id in NOT_YET_DIAGNOSED:
        console.print(Text("No rule of this version gives this class yet: reports say UNDETERMINED instead."))
    for section in page.sections:
        console.print()
        _print_section(section, console)
    console.print()
    console.print(Text(f"catalogue {catalogue.version}, as of {catalogue.dated}", style="dim"))
    _print_notes(catalogue, console)


def _print_notes(catalogue: Catalogue, console: Console) -> None:
    """What of the packs and the local overlay could not be used."""
    for note in catalogue.notes:
        console.print(Text(note, style="yellow"), soft_wrap=True)


def _print_section(section: Section, console: Console) -> None:
    console.print(Text(section.heading, style="bold"))
    bullet = "-" if len(section.lines) > 1 else ""
    for line in section.lines:
        _print_hanging(bullet, line, console)
    for number, step in enumerate(section.steps, start=1):
        _print_step(number, step, console)


def _print_step(number: int, step: Advice, console: Console) -> None:
    where = "" if step.where == "any" else f" ({step.where})"
    _print_hanging(f"{number}.", f"{step.text}{where}", console)
    if step.command:
        # never wrapped: a command must survive being copied from a narrow terminal
        console.print(Text(" " * COMMAND_INDENT + step.command, style="green"), soft_wrap=True)


def _print_hanging(marker: str, text: str, console: Console) -> None:
    """A paragraph whose later lines start where its first word does."""
    grid = _grid()
    grid.add_row("", *((marker,) if marker else ()), Text(text, overflow="fold"))
    console.print(grid)


def _grid() -> Table:
    return Table.grid(padding=(0, 1), pad_edge=False)
