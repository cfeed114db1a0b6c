"""`capture list`: a row for each capture, for what is unfinished, and for crashes that nobody took."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from analyzers.privacy.visible import visible
from collector.capture.crash.store import PARTIAL
from collector.capture.kept.captures import Capture, captures, partials
from collector.capture.kept.missed import Missed, known

SCHEMA = "llama-blackbox/captures/1"
HEAD = ("ID", "TIME", "PID", "SIGNAL", "PROGRAM", "FROM", "SIZE", "STATE")
_MOST_CELL = 60


def rows(store: Path) -> list[dict[str, Any]]:
    """One object for each, the oldest first."""
    found = [_row(one) for one in captures(store)]
    found += [_unfinished(path) for path in partials(store)]
    found += [_missed(one) for one in known(store)]
    return sorted(found, key=lambda row: row["time"])


def _row(one: Capture) -> dict[str, Any]:
    return {
        "id": one.id,
        "time": one.wall,
        "pid": one.pid,
        "signal": one.signal,
        "program": one.exe,
        "from": one.origin,
        "bytes": one.size,
        "state": _state(one),
    }


def _state(one: Capture) -> str:
    if not one.told:
        return "unreadable manifest"
    if one.refused is not None:
        return f"refused: {one.refused}"
    if one.core is None:
        return "no core"
    words = ["adopted"] if one.part("adopted") else []
    words += ["full core"] if one.full is not None else []
    return ", ".join(words) or "kept"


def _unfinished(path: Path) -> dict[str, Any]:
    one = Capture(path, {})
    name = path.name.removeprefix(PARTIAL)
    plain = Capture(path.with_name(name), {})
    return {
        "id": name,
        "time": path.stat().st_mtime,
        "pid": plain.pid,
        "signal": None,
        "program": "",
        "from": "?",
        "bytes": one.size,
        "state": "unfinished (capture adopt)",
    }


def _missed(one: Missed) -> dict[str, Any]:
    return {
        "id": None,
        "time": one.wall,
        "pid": one.pid,
        "signal": None,
        "program": one.comm,
        "from": "kernel",
        "bytes": 0,
        "state": f"no capture: {one.why}",
    }


def as_text(store: Path) -> str:
    """JSON."""
    return json.dumps({"schema": SCHEMA, "captures": rows(store)}, indent=2)


def table(store: Path) -> str:
    """Columns as wide as their cells; the last one is not padded."""
    found = rows(store)
    if not found:
        return f"no captures in {visible(str(store))}"
    cells = [HEAD, *(_cells(row) for row in found)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEAD) - 1)]
    return "\n".join(_line(row, widths) for row in cells)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return "  ".join([*padded, row[-1]]).rstrip()


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["time"]))
    program = PurePosixPath(row["program"]).name
    size = f"{row['bytes'] / (1 << 20):.1f} MiB" if row["bytes"] else "-"
    told = (row["id"] or "-", at, row["pid"], row["signal"], program, row["from"], size, row["state"])
    return tuple(_cell(value) for value in told)


def _cell(value: object) -> str:
    text = "-" if value in (None, "") else visible(str(value))
    return text if len(text) <= _MOST_CELL else text[: _MOST_CELL - 1] + "…"
