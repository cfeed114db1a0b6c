"""Where incidents are sent: what a sink is, and the ones that installed packages bring.

A sink is an entry point of the group ``llama_blackbox.sinks``: a callable without arguments that returns an
object with ``name``, ``send``, ``attach`` and ``close``. ``examples/jsonl-sink`` is a whole one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox import AttachmentRow

GROUP = "llama_blackbox.sinks"
MAX_SINK_NAME = 80


@dataclass(frozen=True)
class Outgoing:
    """One incident's metadata on its way. ``manifest``: the attachments that could be asked for."""

    record: IncidentRecord
    manifest: tuple[AttachmentRow, ...] = ()

    def to_json(self) -> bytes:
        """The record's JSON with ``manifest`` [{name, kind, size, sha256}] added; one line, UTF-8."""
        told = self.record.model_dump(mode="json", by_alias=True)
        told["manifest"] = [
            {"name": row.name, "kind": row.kind, "size": row.size, "sha256": row.sha256}
            for row in self.manifest
        ]
        return json.dumps(told).encode()


@dataclass(frozen=True)
class Accepted:
    """It has it. ``want``: names of attachments it would like."""

    want: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """It will never take this one."""

    why: str


@dataclass(frozen=True)
class Later:
    """Not now. ``after``: seconds it asked for. ``answered``: it was there and failed with this record."""

    why: str
    after: float | None = None
    answered: bool = False


Answer = Accepted | Refused | Later


class Sink(Protocol):
    """Called in a thread of its own, one call at a time; a call may block for seconds. Delivery is at least
    once: the same ``record.id`` and ``revision`` may come again. What raises counts as ``Later``."""

    name: str

    def send(self, outgoing: Outgoing) -> Answer: ...

    def attach(self, row: AttachmentRow, path: Path) -> Answer: ...

    def close(self) -> None: ...


def plugin_sinks() -> tuple[list[Sink], list[str]]:
    """The sinks of installed packages, and a line about each that could not be made. Never raises."""
    from importlib.metadata import entry_points

    found: list[Sink] = []
    problems: list[str] = []
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        try:
            make: Callable[[], Sink] = point.load()
            sink = make()
            sink.name = str(sink.name)[:MAX_SINK_NAME]
            found.append(sink)
        except Exception as error:  # noqa: BLE001 - foreign code may fail in any way, and sinks nothing here
            problems.append(f"sink '{point.name}' was left out: {type(error).__name__}: {str(error)[:200]}")
    return found, problems
