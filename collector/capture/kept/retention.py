"""Which captures go: too old, too many, too large together. The newest of each signature never goes."""

from __future__ import annotations

import os
import shutil
import time
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
    """(capture, why) of those that go. ``there``, and what is given: the oldest first."""
    rows = list(there)
    newest = {key(one): one.id for one in rows}
    kept = {one.id: one.size for one in rows}
    found: list[tuple[Capture, str]] = []
    now = time.time() if now is None else now
    for one in rows:
        if one.id in newest.values():
            continue
        why = _why(one, rules, len(kept), sum(kept.values()), now)
        if why is not None:
            del kept[one.id]
            found.append((one, why))
    return found


def _why(one: Capture, rules: Rules, count: int, size: int, now: float) -> str | None:
    if now - one.wall > rules.days * DAY:
        return f"older than {rules.days:g} days"
    if count > rules.count:
        return f"more than {rules.count} captures"
    return f"more than {rules.bytes} bytes together" if size > rules.bytes else None


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
