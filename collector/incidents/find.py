"""Which outbox, and which incident in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from analyzers.contracts.outbox import DATABASE, SYSTEM_FOLDER, USER_FOLDER, IncidentRow
from analyzers.errors import UserError
from analyzers.privacy.visible import visible

NEWEST = "newest"
SHORTEST = 8  # characters of an id that are shown, more where that would not tell two apart
SHOWN = 5  # ids that a line about an ambiguous one names


def default_folder(environment: Mapping[str, str] | None = None, user: int | None = None) -> Path:
    """Root's is the host's; a user's own below $XDG_STATE_HOME, or the host's where there is no own one."""
    env = os.environ if environment is None else environment
    if (os.geteuid() if user is None else user) == 0:
        return Path(SYSTEM_FOLDER)
    state = env.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path(env.get("HOME", "/")) / ".local" / "state"
    own = base / USER_FOLDER
    return own if (own / DATABASE).exists() or not Path(SYSTEM_FOLDER).exists() else Path(SYSTEM_FOLDER)


def pick(rows: Sequence[IncidentRow], asked: str) -> IncidentRow:
    """The incident whose id begins with ``asked`` (or "newest"). Raises UserError for none or several."""
    where = f"incident '{visible(asked)[:40]}'"
    if asked == NEWEST and rows:
        return rows[0]
    found = [row for row in rows if asked and row.id.startswith(asked.lower())]
    exact = [row for row in found if row.id == asked.lower()]
    if len(found) > 1 and not exact:
        names = ", ".join(visible(row.id[: len(asked) + 6]) for row in found[:SHOWN])
        raise UserError(f"{len(found)} begin so", where=where, remedy=f"give more of it: {names}")
    if not found:
        raise UserError("there is no such one", where=where, remedy="see llama-blackbox incidents list")
    return (exact or found)[0]


def short_length(rows: Sequence[IncidentRow]) -> int:
    """Characters that tell every id from the others."""
    idents = sorted({row.id for row in rows})
    shared = [_shared(one, other) for one, other in pairwise(idents)]
    return max(SHORTEST, *(length + 1 for length in shared)) if shared else SHORTEST


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
