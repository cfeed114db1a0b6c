"""What `llama-blackbox triage` does, and the short way to it for plain command lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.cli.output import for_a_reader, printable_json, printing
from analyzers.cli.progress import Progress
from analyzers.cli.screen import show, typed
from analyzers.errors import EXIT_OK, EXIT_UNDETERMINED, UserError
from analyzers.privacy.visible import visible
from analyzers.triage.run import Options, Triage, finish, triage

if TYPE_CHECKING:
    from analyzers.cli.hosting import Selection

FLAGS = frozenset({"--json", "--markdown", "--fast", "--include-private", "--details"})


def plainly(args: Sequence[str]) -> int | None:
    """Carry out a command line of inputs and flags alone; None for any other one, which typer reads.

    Most are such, and importing typer costs 20 ms of the 400 that a verdict takes.
    """
    inputs = [arg for arg in args if not arg.startswith("-")]
    options = {arg for arg in args if arg.startswith("-")}
    if not inputs or not options <= FLAGS:
        return None
    return carry_out(
        [Path(name) for name in inputs],
        json="--json" in options,
        markdown="--markdown" in options,
        fast="--fast" in options,
        include_private="--include-private" in options,
        details="--details" in options,
    )


def carry_out(
    inputs: Sequence[Path],
    *,
    exe: Path | None = None,
    symbols: Sequence[Path] = (),
    json: bool = False,
    markdown: bool = False,
    html: Path | None = None,
    fast: bool = False,
    include_private: bool = False,
    incident: int | None = None,
    details: bool = False,
    selection: Selection | None = None,
) -> int:
    """Say what happened; returns the exit status. Raises UserError when an input cannot be used.

    Without ``inputs`` the collector picks them from this host, by ``selection``. Of several incidents the
    terminal shows their table and one verdict; ``incident`` picks one, and ``details`` shows all of it.
    """
    if json and markdown:
        raise UserError("--json and --markdown exclude each other", where="triage", remedy="give one of them")
    piped = html is not None and str(html) == "-"
    if piped and (json or markdown):
        raise UserError(
            "two documents cannot both go to standard output",
            where="--html -",
            remedy="give --html a file, or leave --json and --markdown away",
        )
    if html is not None:
        _spare_inputs(html, [*inputs, *([exe] if exe else [])])
    command = typed(inputs, [("--exe", exe), *(("--symbols", path) for path in symbols)], selection)
    with ExitStack() as stack:
        inputs = inputs or _from_host(selection, include_private, stack)
        options = Options(
            exe=exe,
            symbols=tuple(symbols),
            fast=fast,
            include_private=include_private,
            journals=_journals,
            incident=incident,
        )
        result = _read(inputs, options, stack)
        if json or markdown:
            result = finish(result)
            with for_a_reader(), printing():
                print(printable_json(result.report.to_json()) if json else _markdown(result))
        elif not piped:  # the page itself is the output then
            result = show(result, details=details, command=command)
        if html is not None:
            with for_a_reader():
                _write_html(result, html)
    return EXIT_UNDETERMINED if result.report.verdict.confidence == "undetermined" else EXIT_OK


def _read(inputs: Sequence[Path], options: Options, stack: ExitStack) -> Triage:
    progress = Progress()
    try:
        return triage(inputs, replace(options, progress=progress), stack)
    finally:
        progress.done()


def _journals(files: Sequence[Path], target: Path) -> None:
    from analyzers.cli.journals import journals_into  # the collector's reader, by name

    journals_into(files, target)


def _from_host(selection: Selection | None, include_private: bool, stack: ExitStack) -> list[Path]:
    from analyzers.cli.hosting import Selection, selected  # named inputs do without

    return selected(selection or Selection(), include_private, stack)


def _spare_inputs(target: Path, inputs: Sequence[Path]) -> None:
    """Raises UserError when the page would overwrite an input, or be written into an input's folder."""
    places = (target, *target.absolute().parents)
    if any(_same(place, path) for place in places for path in inputs):
        raise UserError(
            "would change an input, and inputs are never changed",
            where=f"--html {target}",
            remedy="give a file elsewhere",
        )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there, or cannot be looked at
        return False


def _markdown(result: Triage) -> str:
    from analyzers.render.markdown import render_markdown

    return render_markdown(result.report)


def _write_html(result: Triage, target: Path) -> None:
    from analyzers.render.html import render_html

    text = render_html(finish(result).report)
    if str(target) == "-":
        with printing():
            print(text)
        return
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"cannot be written ({error.strerror})", where=str(target), remedy="give another --html FILE"
        ) from None
    print(f"HTML report: {visible(str(target))}", file=sys.stderr)
