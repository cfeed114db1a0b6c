"""Renderings of a report: terminal, Markdown, HTML and the timeline picture.

Nothing is imported before it is asked for: `triage --json` needs none of it, and only the terminal
rendering needs rich.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from analyzers.contracts.report import Report

__all__ = ["render_html", "render_markdown", "render_terminal"]


def render_terminal(
    report: Report, console: Console, *, details: bool | None = None, table: bool = True
) -> None:
    """Print the report on ``console``, at its width, with its encoding; plain under NO_COLOR.

    Several incidents: their table and one verdict; the rest of it with ``details``, alone without ``table``.
    """
    from analyzers.render.terminal import render_terminal as render

    render(report, console, details=details, table=table)


def render_markdown(report: Report) -> str:
    """Text to paste into a public bug tracker; directories, hosts, arguments and boot ids are left out."""
    from analyzers.render.markdown import render_markdown as render

    return render(report)


def render_html(report: Report) -> str:
    """One self-contained page: no script, nothing loaded from anywhere."""
    from analyzers.render.html import render_html as render

    return render(report)
