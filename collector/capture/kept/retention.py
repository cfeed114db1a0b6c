"""Which captures go: too old, too many, too large together.

Of too many or too large ones the user that has most gives first, of its units the one that has most, and of
that the oldest. The newest of each signature stays, of each user up to a number of signatures.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.crash.store import PARTIAL
from collector.capture.kept.captures import Capture
from collector.capture.kept.signatures import signature
from collector.capture.setup.safe import sync_folder, unsafe
from collector.gather.tools import read_text

KEEP_DAYS = 90.0  # systemd keeps its cores for two weeks; a capture is a hundredth of one
KEEP_COUNT = 200  # below the crash path's 500, at which it takes no more
KEEP_BYTES = 20 << 30  # 40 full cores of half a gigabyte, 10,000 minimal ones
DAY = 86400.0
# Whoever can crash a server in ever new ways makes ever new signatures: beyond it the oldest of them go too.
SIGNATURES_OF_USER = 50
DOOMED = f"{PARTIAL}doomed-"  # a name that nothing takes for a capture, should the removal be killed


@dataclass(frozen=True)
class Rules:
    """``days``, ``count``, ``bytes``: the most of each."""

    days: float = KEEP_DAYS
    count: int = KEEP_COUNT
    bytes: int = KEEP_BYTES


def read_rules(path: Path) -> Rules:
    """Lines ``days = …``, ``count = …``, ``bytes = …``; the defaults where there is no file.

    Raises UserError for a file that others can write, or a line that is none: nothing is thrown away then.
    """
    text = read_text(path, 1 << 16)
    if text is None:
        return Rules()
    fault = unsafe(path)
    if fault is not None:
        raise UserError(fault, where=str(path), remedy="give it to root alone")
    rules = Rules()
    for line in text.decode("utf-8", "replace").splitlines():
        name, _, value = (part.strip() for part in line.partition("="))
        if not line.strip() or name.startswith("#"):
            continue
        if (
            name not in ("days", "count", "bytes")
            or not value.isdecimal()
            or len(value) > 15
            or int(value) < 1
        ):
            raise UserError(
                f"not understood: {line[:60]!r}", where=str(path), remedy="days, count or bytes = a number"
            )
        rules = replace(rules, **{name: int(value)})
    return rules


def doomed(
    there: Iterable[Capture],
    rules: Rules,
    key: Callable[[Capture], str] = signature,
    now: float | None = None,
) -> list[tuple[Capture, str]]:
    """(capture, why) of those that go. ``there``: the oldest first."""
    rows = [_Row(one, one.uid, one.unit, one.size) for one in there]
    safe = _newest(rows, key)
    now = time.time() if now is None else now
    found = [
        (row.capture, f"older than {rules.days:g} days")
        for row in rows
        if now - row.capture.wall > rules.days * DAY and row.capture.id not in safe
    ]
    gone = {capture.id for capture, _ in found}
    rows = [row for row in rows if row.capture.id not in gone]
    for most, measure, why in (
        (rules.count, _one, f"more than {rules.count} captures"),
        (rules.bytes, _bytes, f"more than {rules.bytes} bytes together"),
    ):
        while sum(map(measure, rows)) > most and (row := _greediest(rows, safe, measure)) is not None:
            rows.remove(row)
            found.append((row.capture, why))
    return found


@dataclass(frozen=True)
class _Row:
    capture: Capture
    uid: int | None
    unit: str
    size: int


def _one(row: _Row) -> int:
    return 1


def _bytes(row: _Row) -> int:
    return row.size


def _newest(rows: list[_Row], key: Callable[[Capture], str]) -> set[str]:
    """Ids of the newest of each signature, the newest signatures of each user."""
    last = {key(row.capture): row for row in rows}
    safe: set[str] = set()
    held: Counter[int | None] = Counter()
    for row in sorted(last.values(), key=rows.index, reverse=True):
        held[row.uid] += 1
        if held[row.uid] <= SIGNATURES_OF_USER:
            safe.add(row.capture.id)
    return safe


def _greediest(rows: list[_Row], safe: set[str], measure: Callable[[_Row], int]) -> _Row | None:
    """The oldest of the unit that holds most of what the user that holds most has; None: none may go."""
    users: Counter[int | None] = Counter()
    units: Counter[tuple[int | None, str]] = Counter()
    for row in rows:
        users[row.uid] += measure(row)
        units[row.uid, row.unit] += measure(row)
    free = [row for row in rows if row.capture.id not in safe]
    return max(free, key=lambda row: (users[row.uid], units[row.uid, row.unit]), default=None)


def throw_away(capture: Capture) -> None:
    """Remove one; killed in between, what is left is no capture. Raises OSError."""
    aside = capture.path.with_name(DOOMED + capture.id)
    os.rename(capture.path, aside)
    sync_folder(capture.path.parent)
    shutil.rmtree(aside)


def clear_doomed(store: Path) -> None:
    """What a removal that was killed has left."""
    if store.is_dir():
        for each in store.iterdir():
            if each.name.startswith(DOOMED):
                shutil.rmtree(each, ignore_errors=True)
