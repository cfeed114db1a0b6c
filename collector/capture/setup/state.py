"""What was there before, what we left, and how far an installation has come: written before any change."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.setup.safe import sync_folder, unsafe, write_synced

SCHEMA = "llama-blackbox/capture-state/1"
INSTALLING, INSTALLED, REMOVING = "installing", "installed", "removing"
PHASES = (INSTALLING, INSTALLED, REMOVING)
_MOST = 1 << 16


@dataclass(frozen=True)
class State:
    """``before`` and ``left``: sysctl → value, of those that change; ``seen``: all three as they were."""

    phase: str
    shape: str
    mode: str
    store: str
    before: Mapping[str, str]
    left: Mapping[str, str]
    seen: Mapping[str, str] = field(default_factory=dict)
    persist: str | None = None  # the sysctl.d file
    socket: str | None = None
    at: float = 0.0

    def moved(self, phase: str) -> State:
        return replace(self, phase=phase, at=time.time())


def load(path: Path) -> State | None:
    """The state kept at ``path``; None when there is none. Raises UserError when it cannot be trusted."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(_MOST)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _damaged(path, (problem.strerror or "error").lower()) from None
    fault = unsafe(path)
    if fault is not None:
        raise _damaged(path, fault)
    try:
        return _state(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _damaged(path, "it is cut or damaged") from None


def _state(row: dict[str, object]) -> State:
    if row.pop("schema") != SCHEMA or row["phase"] not in PHASES:
        raise ValueError("of another version")
    found = State(**row)  # type: ignore[arg-type]
    for table in (found.before, found.left, found.seen):
        if not all(isinstance(part, str) for pair in dict(table).items() for part in pair):
            raise ValueError("not sysctls")
    return found


def save(path: Path, state: State) -> None:
    """Written and synced when this returns. Raises OSError."""
    write_synced(path, json.dumps({"schema": SCHEMA, **asdict(state)}, indent=1) + "\n", 0o600)


def forget(path: Path) -> None:
    """Take the state away: nothing is installed any more."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def _damaged(path: Path, why: str) -> UserError:
    remedy = (
        "compare sysctl kernel.core_pattern with the file 'previous' beside it, set it by hand, delete both"
    )
    return UserError(f"the state of the installation cannot be used ({why})", where=str(path), remedy=remedy)
