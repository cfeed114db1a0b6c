"""What the outbox says now, sorted for a person: the worst first, and since when."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analyzers.contracts.outbox import IncidentRow, ServerRow, TransitionRow
from analyzers.contracts.outbox_read import OutboxReader

BAR_SECONDS = 1800.0  # of states that the bar shows: sleeps come after minutes
BAR_CELLS = 30
INCIDENTS = 5
MAX_PROBLEMS = 8
# An agent gives a sign of life every ten seconds.
SILENT_SECONDS = 30.0
ORDER = (
    "stranded",
    "hung",
    "crashed",
    "dumping",
    "down",
    "loading",
    "unloading",
    "waking",
    "stopping",
    "busy",
)
# One letter a cell: what is asleep must not look like what is idle.
LETTERS = {
    "awake": "a",
    "busy": "B",
    "asleep": "z",
    "unloading": "u",
    "waking": "w",
    "loading": "l",
    "stranded": "!",
    "hung": "#",
    "dumping": "X",
    "crashed": "X",
    "stopping": "s",
    "down": "-",
}
UNSEEN = " "


@dataclass(frozen=True)
class Shown:
    """One server. ``bar``: BAR_CELLS letters, the newest last; ``seconds`` in its state."""

    name: str
    state: str
    seconds: float
    bar: str
    about: Mapping[str, Any] = field(default_factory=dict)

    def number(self, key: str) -> float | None:
        """A figure of the agent's, None for anything that is none."""
        value = self.about.get(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, key: str) -> str | None:
        """A word of the agent's, None for anything that is none."""
        value = self.about.get(key)
        return value if isinstance(value, str) and value else None


@dataclass(frozen=True)
class Picture:
    """Everything at one moment. ``age``: seconds since the agent wrote last, None when it never did."""

    servers: tuple[Shown, ...]
    incidents: tuple[IncidentRow, ...]
    age: float | None
    dropped: Mapping[str, int]
    problems: tuple[str, ...] = ()

    @property
    def silent(self) -> bool:
        """The agent has not written for longer than it ever waits."""
        return self.age is not None and self.age > SILENT_SECONDS


def look(store: OutboxReader, wall: float) -> Picture:
    """The picture of ``wall`` (Unix seconds), now."""
    rows, moves = store.servers(), store.transitions(wall - BAR_SECONDS)
    by_key: dict[str, list[TransitionRow]] = {}
    for move in moves:
        by_key.setdefault(move.key, []).append(move)
    servers = [_shown(row, by_key.get(row.key, []), wall) for row in rows]
    sign = store.agent()
    return Picture(
        tuple(sorted(servers, key=_rank)),
        tuple(store.incidents(INCIDENTS)),
        max(0.0, wall - sign[0]) if sign is not None else None,
        {name: number for name, number in store.counters().items() if number and name.startswith("dropped")},
        _problems(sign[1]) if sign is not None else (),
    )


def _problems(health: str) -> tuple[str, ...]:
    told = _about(health).get("problems")
    return tuple(str(each) for each in told[:MAX_PROBLEMS]) if isinstance(told, list) else ()


def _rank(one: Shown) -> tuple[int, str]:
    return (ORDER.index(one.state) if one.state in ORDER else len(ORDER), one.name)


def _shown(row: ServerRow, moves: Sequence[TransitionRow], wall: float) -> Shown:
    about = _about(row.about)
    state = row.state or "unknown"
    return Shown(_name(about), state, max(0.0, wall - row.wall), bar(state, moves, wall), about)


def _about(text: str) -> Mapping[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _name(about: Mapping[str, Any]) -> str:
    parts = [about.get("unit") or about.get("container"), about.get("model")]
    port, pid = about.get("port"), about.get("pid")
    parts.append(f"port {port}" if isinstance(port, int) else f"PID {pid}" if isinstance(pid, int) else None)
    return ", ".join(str(part)[:60] for part in parts if part) or "a server"


def bar(state: str, moves: Sequence[TransitionRow], wall: float) -> str:
    """The states of the last half hour, a letter each; of a cell in which several were, the last."""
    cells, ordered = [], sorted(moves, key=lambda move: move.wall)
    before = ordered[0].before if ordered else state
    for number in range(BAR_CELLS):
        end = wall - BAR_SECONDS + (number + 1) * BAR_SECONDS / BAR_CELLS
        while ordered and ordered[0].wall <= end:
            before = ordered.pop(0).after
        cells.append(LETTERS.get(before, "?") if before else UNSEEN)
    return "".join(cells)
