"""Sample reports, hostile copies of them, and the three renderings as text."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analyzers.contracts.report import Report
from analyzers.render import render_html, render_markdown, render_terminal

REPORTS = Path(__file__).parents[2] / "fixtures" / "reports"
NAMES = sorted(path.stem for path in REPORTS.glob("*.json"))
KEPT = {"trust", "kind", "schema", "clock"}  # their values steer, so a hostile text there is tested apart


def read(name: str) -> Report:
    return Report.from_json((REPORTS / f"{name}.json").read_bytes())


def terminal_text(report: Report, *, details: bool | None = True, table: bool = True, **options: Any) -> str:
    """What the terminal gets, byte for byte: all of it, unless ``details`` says otherwise."""
    buffer = io.StringIO()
    console = Console(file=buffer, **{"width": 80, **options})
    render_terminal(report, console, details=details, table=table)
    return buffer.getvalue()


def poison(value: Any, text: str, key: str = "") -> Any:
    """A copy of dumped data with ``text`` behind every free string."""
    if isinstance(value, dict):
        return {name: poison(item, text, name) for name, item in value.items()}
    if isinstance(value, list):
        return [poison(item, text, key) for item in value]
    return value + text if isinstance(value, str) and key not in KEPT else value


@pytest.fixture
def sample() -> Callable[[str], Report]:
    return read


@pytest.fixture(params=NAMES)
def any_sample(request: pytest.FixtureRequest) -> Report:
    return read(request.param)


@pytest.fixture
def terminal() -> Callable[..., str]:
    return terminal_text


@pytest.fixture
def hostile() -> Callable[[str], Report]:
    """The D2 report (every part filled) with a hostile text behind every string."""

    def build(text: str) -> Report:
        data = read("eight_incidents").model_dump(mode="json", by_alias=True)
        cores = read("eight_cores").model_dump(mode="json", by_alias=True)
        data["incidents"] = [*cores["incidents"], *data["incidents"]]
        data["clocks"] = cores["clocks"]
        data["gaps"] = [{"what": "w", "why": "y", "command": "c"}]
        data["later"] = {"field": "from a newer writer"}
        data["host"]["rack"] = "r"
        return Report.model_validate(poison(data, text))

    return build


@pytest.fixture(params=["terminal", "terminal-brief", "terminal-ascii", "markdown", "html"])
def rendering(request: pytest.FixtureRequest) -> Callable[[Report], str]:
    """Each rendering as a function from report to text."""
    ways: dict[str, Callable[[Report], str]] = {
        "terminal": terminal_text,
        "terminal-brief": lambda report: terminal_text(report, details=None),
        "terminal-ascii": ascii_text,
        "markdown": render_markdown,
        "html": render_html,
    }
    return ways[request.param]


def ascii_text(report: Report) -> str:
    """The terminal rendering on a stdout that knows ASCII only."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict", newline="\n")
    render_terminal(report, Console(file=stream, width=80), details=True)
    stream.flush()
    return raw.getvalue().decode("ascii")


@pytest.fixture
def as_ascii() -> Callable[[Report], str]:
    return ascii_text
