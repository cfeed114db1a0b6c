"""`llama-blackbox capture`: puts the core handler in place, and looks after what it keeps."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import typer

from analyzers.cli.output import for_a_reader, printing
from analyzers.errors import EXIT_FAILED, EXIT_OK, UserError
from analyzers.privacy.visible import visible
from collector.capture import options
from collector.capture.crash.settings import FULL, MINIMAL, STORE
from collector.capture.setup import install as installing
from collector.capture.setup import state, undo
from collector.capture.setup.kernel import PIPE, SHAPES
from collector.capture.setup.layout import PREFIX, Layout
from collector.capture.setup.layout import SOCKET as SOCKET_PATH

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback()
def main() -> None:
    """Keeps what a dying llama-server leaves. Captures hold memory and never leave the host by themselves."""


@app.command()
def install(
    mode: options.Mode = MINIMAL,
    shape: options.Shape = PIPE,
    prefix: options.Prefix = PREFIX,
    store: options.Store = None,
    names: options.Names = None,
    python: options.Python = None,
    persist: options.Persist = True,
    pipe_limit: options.PipeLimit = installing.PIPE_LIMIT,
    socket: options.Socket = None,
    dry_run: options.DryRun = False,
) -> int:
    """Make the kernel hand crashes to us; the settings of before are kept. Root only."""
    _one_of("--mode", mode, (MINIMAL, FULL))
    _one_of("--shape", shape, SHAPES)
    wanted = installing.Wanted(
        shape, mode, tuple(names or ()), python, persist, pipe_limit, socket or SOCKET_PATH
    )
    made = installing.plan(Layout(prefix, store or Path(STORE)), wanted)
    _show(made.lines(), dry_run)
    if not dry_run:
        installing.apply(made)
        _say("installed" + installing.next_step(made))
    return EXIT_OK


@app.command()
def remove(
    prefix: options.Prefix = PREFIX, force: options.Force = False, dry_run: options.DryRun = False
) -> int:
    """Restore the settings of before and take the handler away; captures stay. Root only."""
    installing.demand_root()
    made = undo.removal(Layout(prefix), force=force)
    _show(made.lines(), dry_run)
    if not dry_run:
        undo.apply(made)
        _say("removed")
    return EXIT_OK


@app.command()
def status(prefix: options.Prefix = PREFIX) -> int:
    """What is installed, and whether it still holds. Changes nothing. Exit status 1: it does not."""
    from collector.capture.setup.status import look

    found = look(Layout(prefix))
    _say(found.state, *found.facts, *(f"! {fault}" for fault in found.faults))
    return EXIT_OK if found.fine else EXIT_FAILED


@app.command()
def serve(prefix: options.Prefix = PREFIX, socket: options.Socket = None) -> int:
    """Take crashes from the kernel's coredump socket until told to stop (for the systemd unit). Root only."""
    import os

    from collector.capture.setup.code import choose_python

    installing.demand_root()
    layout = Layout(prefix)
    found = state.load(layout.state)
    path = socket or (found.socket if found is not None else None)
    if path is None or not layout.server.is_file():
        raise UserError(
            "no socket is installed there", where=str(prefix), remedy="capture install --shape socket"
        )
    python = choose_python(None)
    os.execve(python, [python, "-ISB", str(layout.server), path], {"PATH": os.defpath})  # noqa: S606


@app.command()
def watch(
    folders: options.Folders,
    store: options.Store = None,
    prefix: options.Prefix = PREFIX,
    once: options.Once = False,
) -> int:
    """Take plain core files of llama-servers as they are completed. The files stay where they are."""
    from collector.capture.watching import run

    run(folders, _store(store, prefix), _reserve(prefix), once=once, say=_say)
    return EXIT_OK


@app.command()
def adopt(
    store: options.Store = None, prefix: options.Prefix = PREFIX, dry_run: options.DryRun = False
) -> int:
    """Finish what handlers left unfinished, slim full cores, throw away by age, count and size."""
    from collector.capture.crash.settings import read_settings
    from collector.capture.tidying import tidy

    since, names = _installed_at(prefix), read_settings(str(prefix)).names
    lines = tidy(_store(store, prefix), Layout(prefix).retention, dry_run=dry_run, since=since, names=names)
    for line in lines:
        _say(line)
    return EXIT_OK


@app.command("list")
def show(
    store: options.Store = None, prefix: options.Prefix = PREFIX, as_json: options.AsJson = False
) -> int:
    """The captures, unfinished ones and crashes that no handler saw included."""
    from collector.capture.listing import as_text, table

    place = _store(store, prefix)
    with printing(), for_a_reader():
        print(as_text(place) if as_json else table(place))
    return EXIT_OK


@app.command()
def bundle(
    name: options.Id,
    output: options.Output = None,
    force: options.Force = False,
    include_private: options.Private = False,
    store: options.Store = None,
    prefix: options.Prefix = PREFIX,
    journal: options.JournalFolder = None,
) -> int:
    """Make a bundle of a capture for `llama-blackbox triage`: redacted, stacks as text, no memory."""
    from collector.capture.handing import write

    target = output or Path(f"llama-blackbox-{time.strftime('%Y%m%d-%H%M%S')}.tar.zst")
    for line in write(_store(store, prefix), name, target, journal, private=include_private, force=force):
        _say(line)
    return EXIT_OK


@app.command("import")
def take(
    things: options.Things = None,
    store: options.Store = None,
    prefix: options.Prefix = PREFIX,
    journal: options.JournalFolder = None,
    coredumps: options.Coredumps = Path("/var/lib/systemd/coredump"),
    apport: options.Reports = Path("/var/crash"),
) -> int:
    """Take in cores that others kept, each once: systemd-coredump's, apport's, those of named folders.

    The sources stay as they are. Exit status 1: nothing was there to take.
    """
    from collector.capture.importing import found_in, run

    rows, gaps = found_in(things or [], journal, coredumps, apport)
    outcomes = run(rows, _store(store, prefix), _reserve(prefix))
    _say(*(outcome.words for outcome in outcomes), *(f"not searched: {gap.what} ({gap.why})" for gap in gaps))
    if not outcomes:
        _say("no core of a llama-server was found")
    return EXIT_OK if any(outcome.name for outcome in outcomes) else EXIT_FAILED


def _store(asked: Path | None, prefix: Path) -> Path:
    """The named one, else the installation's, else the default."""
    if asked is not None:
        return asked
    found = _state(prefix)
    return Path(found.store if found is not None else STORE)


def _installed_at(prefix: Path) -> float:
    """Unix seconds; 0 where nothing is installed."""
    found = _state(prefix)
    return found.at if found is not None else 0.0


def _state(prefix: Path) -> state.State | None:
    try:
        return state.load(Layout(prefix).state)
    except UserError:
        return None


def _reserve(prefix: Path) -> int:
    from collector.capture.crash.settings import read_settings

    return read_settings(str(prefix)).reserve


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(
            "not one of them", where=f"{option} {value[:40]!r}", remedy=f"give {', '.join(known)}"
        )


def _show(lines: Iterable[str], dry_run: bool) -> None:
    """Before anything is changed."""
    _say(*(f"{'would ' if dry_run and not line.startswith('note:') else ''}{line}" for line in lines))


def _say(*lines: str) -> None:
    with printing():
        for line in lines:
            print(visible(line))
