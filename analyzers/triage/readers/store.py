"""What systemd-coredump's store says of a core beside its bytes: the file's name and its extended attributes.

Both can be changed by whoever holds the file, so they are believed only where the core itself agrees: its
notes are the kernel's. A process in a container has another number there than on the host; then the record
tells when the core was written and nothing of the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, ExitFact, fact_of, to_evidence
from analyzers.contracts.report import Gap
from analyzers.logs.text import visible
from analyzers.triage.readers.core_records import STORE

NextId = Callable[[], str]
NAMED = "core."
MAX_VALUE = 4096
KEYS = ("pid", "uid", "signal", "timestamp", "comm", "exe")  # META_ARGV names in systemd's coredump.c
_NAME = re.compile(
    r"core\.(?P<comm>[^./]{1,80})\.(?P<uid>\d{1,10})\.(?P<boot>[0-9a-f]{32})\.(?P<pid>\d{1,10})\."
    r"(?P<time>\d{9,19})(?:\.(?:zst|lz4|xz))?"
)
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
CORE_NAME_LIMIT = 15  # the kernel cuts a program's name in the core's notes


@dataclass(frozen=True)
class Stored:
    """``wall`` is Unix seconds of the core's record; ``attributes`` says that the file carries them."""

    pid: int | None = None
    name: str | None = None
    boot_id: str | None = None
    signal: int | None = None
    wall: float | None = None
    attributes: bool = False


def stored_of(path: Path) -> Stored | None:
    """What name and attributes say; None for a file that is not the store's. Raises nothing."""
    named = named_in_store(path.name)
    told = _attributes(path)
    if named is None and not told:
        return None
    named = named or Stored()
    return Stored(
        pid=_number(told.get("pid")) or named.pid,
        name=(visible(told["comm"], 64) or None) if told.get("comm") else named.name,
        boot_id=named.boot_id,
        signal=_number(told.get("signal")),
        wall=named.wall or _seconds(told.get("timestamp")),
        attributes=bool(told),
    )


def named_in_store(name: str) -> Stored | None:
    """What a file's name in systemd-coredump's store says; None for another name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return Stored(
        pid=_number(match["pid"]),
        name=visible(_unescaped(match["comm"]), 64) or None,
        boot_id=match["boot"],
        wall=_seconds(match["time"]),
    )


def _attributes(path: Path) -> dict[str, str]:
    """``user.coredump.*``; empty where the file system or the copy has none."""
    found = {}
    for key in KEYS:
        try:
            value = os.getxattr(path, f"user.coredump.{key}")
        except (OSError, ValueError):
            continue
        found[key] = value[:MAX_VALUE].rstrip(b"\0").decode("utf-8", "replace")
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 11 else None


def _seconds(text: str | None) -> float | None:
    """Microseconds in names since systemd 215, seconds before and in some attributes."""
    if not text or not text.isdecimal() or len(text) > 19:
        return None
    return int(text) / 1e6 if len(text) > 12 else float(text)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def store_part(
    path: Path, name: str, evidence: Sequence[Evidence], next_id: NextId
) -> tuple[list[Evidence], list[Gap], str | None]:
    """(evidence, gaps, boot id) that the store adds to a core whose evidence is ``evidence``."""
    stored = stored_of(path)
    core = next((fact for item in evidence if (fact := fact_of(item, CoreFact)) is not None), None)
    if stored is None or core is None:
        return [], [], None
    wrong = _contradiction(stored, core)
    if wrong is not None:
        return [], [_not_believed(name, wrong)], None
    boot = stored.boot_id if stored.pid == core.pid else None
    told = ExitFact(by=STORE, signal=stored.signal, result="core-dump", name=stored.name)
    who = "name and attributes" if stored.attributes and stored.boot_id else "attributes"
    source = f"{name}: its {who if stored.attributes else 'name'} in systemd-coredump's store"
    return (
        [
            to_evidence(
                told,
                id=next_id(),
                source=source,
                text=f"core record: {stored.name or 'process'} pid {stored.pid}"
                + (f", signal {stored.signal}" if stored.signal else ""),
                trust=Trust.SUPERVISOR,
                wall=stored.wall,
                incarnation=Incarnation(pid=core.pid, boot_id=boot),
            )
        ],
        [],
        boot,
    )


def _contradiction(stored: Stored, core: CoreFact) -> str | None:
    """What the core's notes say otherwise. The PID may differ in a container, where the core's is small."""
    if stored.signal and core.signal and stored.signal != core.signal:
        return f"signal {stored.signal}, the core {core.signal}"
    if stored.pid is None or core.pid is None or stored.pid == core.pid:
        return None
    if core.pid < stored.pid and _same_name(stored, core):
        return None
    return f"PID {stored.pid}, the core {core.pid}"


def _same_name(stored: Stored, core: CoreFact) -> bool:
    return bool(stored.name and core.program) and (stored.name or "")[:CORE_NAME_LIMIT] == core.program


def _not_believed(name: str, wrong: str) -> Gap:
    return Gap(
        what=f"what the store's record of {name} says",
        why=f"its name or attributes say {wrong}: they are another core's and were not counted",
        command="coredumpctl list",
    )
