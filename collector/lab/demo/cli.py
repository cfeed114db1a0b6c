"""`llama-blackbox demo`: three real faults, provoked, captured and diagnosed."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyzers.contracts.report import Report
from analyzers.errors import EXIT_FAILED, EXIT_OK, UserError
from analyzers.triage.run import Options, finish, triage
from collector.lab.demo.scenes import SCENES, Played, Scene, run_scene
from collector.lab.faults.provoked import Say

app = typer.Typer(add_completion=False, rich_markup_mode=None)
HEADS = ("provoked", "found", "cause", "phase", "confidence", "diagnosis")


@dataclass(frozen=True)
class Row:
    """One line of the closing table."""

    scene: Scene
    played: Played | None
    report: Report | None
    problem: str | None = None

    @property
    def judged(self) -> str:
        """``right``, ``WRONG`` (a verdict that differs), or ``not run``: nothing was there to be judged."""
        if self.report is None:
            return "not run"
        return "right" if self.right else "WRONG"

    @property
    def right(self) -> bool:
        """The verdict names what was provoked: class, defect, cause and phase."""
        if self.report is None or self.played is None or not self.played.happened:
            return False
        verdict, wanted = self.report.verdict, self.played.expected
        same = (verdict.class_, verdict.defect) == (wanted.class_, wanted.defect)
        # a core can hold too little for the phase; "unknown" says so and contradicts nothing
        return same and verdict.cause in wanted.causes and verdict.phase in (*wanted.phases, "unknown")


@app.command()
def run(
    output: Annotated[Path | None, typer.Option(help="folder for bundles, cores and reports")] = None,
    details: Annotated[bool, typer.Option("--details", help="print each verdict whole")] = False,
) -> int:
    """Start real llama-servers, provoke D1, D2 and D3 on them, and diagnose each from its evidence.

    Exit status: 0 when all three are diagnosed, 1 otherwise.
    """
    console = Console(highlight=False)
    begun = time.monotonic()
    folder = _folder(output)
    rows = [_row(scene, folder, console, details) for scene in SCENES]
    page = _write_page(rows, folder)
    _table(rows, console)
    right = sum(row.right for row in rows)
    console.print(f"{right} of {len(rows)} diagnosed in {time.monotonic() - begun:.0f} s")
    if page is not None:
        console.print(Text(f"HTML report: {page}"), soft_wrap=True)
    if output is None:
        console.print(Text(f"bundles, cores and logs stand in {folder}; remove it when done"), soft_wrap=True)
    return EXIT_OK if right == len(rows) else EXIT_FAILED


def _folder(output: Path | None) -> Path:
    if output is None:
        return Path(tempfile.mkdtemp(prefix="llama-blackbox-demo-"))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot be made ({error.strerror})", where=str(output), remedy="give another --output folder"
        ) from None
    return output.resolve()


def _row(scene: Scene, folder: Path, console: Console, details: bool) -> Row:
    console.print(Text(f"{scene.defect}: {scene.title} (xllamacpp {scene.version})", style="bold"))
    say = _sayer(console)
    try:
        played = run_scene(scene, folder, say)
        if not played.inputs:
            return Row(scene, played, None, "; ".join(played.remarks) or "it did not happen")
        report = _diagnose(played, console, details)
    except UserError as problem:
        say(str(problem))
        return Row(scene, None, None, str(problem))
    return Row(scene, played, report)


def _sayer(console: Console) -> Say:
    begun = time.monotonic()

    def say(line: str) -> None:
        console.print(Text(f"  {time.monotonic() - begun:5.1f} s  {line}"), soft_wrap=True)

    return say


def _diagnose(played: Played, console: Console, details: bool) -> Report:
    from analyzers.render.terminal import render_terminal

    with ExitStack() as stack:
        begun = time.monotonic()
        result = triage(played.inputs, Options(), stack)
        seconds = time.monotonic() - begun
        verdict = result.report.verdict
        console.print(
            Text(f"  in {seconds:.2f} s: {verdict.class_} {verdict.defect or ''} ({verdict.confidence})")
        )
        if details:
            render_terminal(result.report, console)
        else:
            console.print(Text(f"  {verdict.summary}"))
            for reason in verdict.reasons:
                console.print(Text(f"    - {reason}"))
            for gap in result.report.gaps:
                console.print(Text(f"    missing: {gap.what} ({gap.why})"))
        return finish(result).report


def _write_page(rows: list[Row], folder: Path) -> Path | None:
    from analyzers.render.html import render_html_many

    reports = [row.report for row in rows]
    if all(report is None for report in reports):
        return None
    page = folder / "demo.html"
    title = f"llama-blackbox demo: {sum(row.right for row in rows)} of {len(rows)} diagnosed"
    lines = [[f"{row.scene.defect}: {row.scene.title}", *_cells(row)[1:]] for row in rows]
    page.write_text(render_html_many(reports, title, lines, HEADS), encoding="utf-8")
    return page


def _table(rows: list[Row], console: Console) -> None:
    table = Table(title=None, expand=False)
    for head in HEADS:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    console.print(table)


def _cells(row: Row) -> list[str]:
    """One line of the closing table, under ``HEADS``."""
    verdict = row.report.verdict if row.report else None
    found = f"{verdict.defect or '-'} {verdict.class_}" if verdict else (row.problem or "-")[:60]
    said = [verdict.cause, verdict.phase, verdict.confidence] if verdict else ["", "", ""]
    return [row.scene.defect, found, *said, row.judged]
