"""`llama-blackbox incidents [list|show|open|export]`: reads the outbox, beside a running agent or without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from analyzers.cli.output import for_a_reader, printable_json, printing
from analyzers.contracts.outbox import IncidentRow
from analyzers.contracts.outbox_read import OutboxReader, open_reading
from analyzers.errors import EXIT_OK
from analyzers.privacy.visible import visible
from collector.incidents.find import NEWEST, default_folder, pick

SCHEMA = "llama-blackbox/incidents/1"
app = typer.Typer(add_completion=False, rich_markup_mode=None)
Outbox = Annotated[
    Path | None, typer.Option("--outbox", help="the outbox's folder; without it: this host's, or the user's")
]
AsJson = Annotated[bool, typer.Option("--json", help=f"print JSON, schema {SCHEMA}")]
Id = Annotated[str, typer.Argument(metavar="ID", help="an incident's id, its beginning, or newest")]
Output = Annotated[Path, typer.Option("--output", "-o", help="the bundle to write (.tar.zst, or a folder)")]
Force = Annotated[bool, typer.Option("--force", help="replace FILE")]
Private = Annotated[
    bool, typer.Option("--include-private", help="nothing redacted, private attachments too: keys, prompts")
]


@app.callback(invoke_without_command=True)
def main(context: typer.Context, outbox: Outbox = None, as_json: AsJson = False) -> int:
    """What the agent has seen on this host; list, when nothing else is asked for. No hub, no agent is needed.

    Exit status: 0 done, also when there is none; 2 the outbox or the id cannot be used.
    """
    context.obj = outbox
    return _list(outbox, as_json) if context.invoked_subcommand is None else EXIT_OK


@app.command("list")
def show_all(context: typer.Context, outbox: Outbox = None, as_json: AsJson = False) -> int:
    """The incidents, the newest first."""
    return _list(outbox or context.obj, as_json)


@app.command()
def show(context: typer.Context, ident: Id, outbox: Outbox = None, as_json: AsJson = False) -> int:
    """One incident: what is known, by which signs, what belongs to it and who has it."""
    with open_reading(_folder(outbox or context.obj)) as store:
        row = _pick(store, ident)
        with printing(), for_a_reader():
            _print([_told(store, row)], store) if as_json else _one(store, row)
    return EXIT_OK


@app.command("open")
def whole(context: typer.Context, ident: Id, outbox: Outbox = None) -> int:
    """The whole report that is attached to an incident; without one, what `show` says."""
    from rich.console import Console

    from analyzers.render.terminal import render_terminal
    from collector.incidents.export import report_of

    with open_reading(_folder(outbox or context.obj)) as store:
        row = _pick(store, ident)
        report = report_of(store, row)
        with printing(), for_a_reader():
            if report is not None:
                render_terminal(report, Console(highlight=False))
            else:
                _one(store, row)
                print(
                    f"no report is attached; see: llama-blackbox incidents export {visible(row.id)} -o FILE"
                )
    return EXIT_OK


@app.command()
def export(
    context: typer.Context,
    ident: Id,
    output: Output,
    outbox: Outbox = None,
    force: Force = False,
    include_private: Private = False,
) -> int:
    """Write an incident as a bundle for `llama-blackbox triage`: redacted, without memory."""
    from collector.incidents.export import write

    with open_reading(_folder(outbox or context.obj)) as store:
        row = _pick(store, ident)
        manifest = write(store, row, output, private=include_private, force=force)
    with printing():
        print(visible(f"{output}: {_count(len(manifest.files))}; run: llama-blackbox triage {output}"))
    return EXIT_OK


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files} files"


def _pick(store: OutboxReader, ident: str) -> IncidentRow:
    newest = ident == NEWEST
    return pick(store.incidents(1) if newest else store.incidents(beginning=ident.lower()), ident)


def _folder(asked: Path | None) -> Path:
    return asked if asked is not None else default_folder()


def _list(asked: Path | None, as_json: bool) -> int:
    from rich.console import Console

    from collector.incidents.render import show_list

    with open_reading(_folder(asked)) as store:
        rows, counters = store.incidents(), store.counters()
        with printing(), for_a_reader():
            if as_json:
                _print([_told(store, row) for row in rows], store)
            else:
                show_list(rows, Console(highlight=False), counters, store.count() - len(rows))
    return EXIT_OK


def _one(store: OutboxReader, row: IncidentRow) -> None:
    from rich.console import Console

    from collector.incidents.render import show_one

    show_one(row, store.attachments(row.id), store.deliveries(row.id), Console(highlight=False))


def _told(store: OutboxReader, row: IncidentRow) -> dict[str, Any]:
    record = row.record.model_dump(mode="json", by_alias=True) if row.record else None
    return {
        "id": row.id,
        "revision": row.revision,
        "kind": row.kind,
        "state": row.state,
        "opened_wall": row.opened,
        "revised_wall": row.revised,
        "record": record,
        "problem": row.problem,
        "attachments": [
            {
                "name": one.name,
                "kind": one.kind,
                "size": one.size,
                "sha256": one.sha256,
                "state": one.state,
                "private": one.private,
            }
            for one in store.attachments(row.id)
        ],
        "deliveries": [
            {"sink": one.sink, "revision": one.revision, "state": one.state, "problem": one.problem}
            for one in store.deliveries(row.id)
        ],
    }


def _print(incidents: list[dict[str, Any]], store: OutboxReader) -> None:
    counters = {name: number for name, number in store.counters().items() if name != "evidence_bytes"}
    document = {"schema": SCHEMA, "incidents": incidents, "counters": counters}
    print(printable_json(json.dumps(document, indent=2, ensure_ascii=False)))
