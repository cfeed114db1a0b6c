"""What is handed to the store in one go: it is stored whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox import ServerRow, TransitionRow
from collector.sources.stream import Batch


@dataclass(frozen=True)
class Yielded:
    """What one stream gave, and the cursor behind it (None: the source has none)."""

    stream: str
    cursor: str | None = None
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class NewAttachment:
    """A file for an incident. ``data``: its bytes, or a path that is read when it is stored and never
    changed. ``private`` ones (memory, anything not redacted) never leave this host."""

    incident: str
    name: str
    kind: str
    data: bytes | Path
    private: bool = False


@dataclass(frozen=True)
class Write:
    """One transaction. ``gone`` are keys of servers that are no longer shown."""

    yields: tuple[Yielded, ...] = ()
    incidents: tuple[IncidentRecord, ...] = ()
    attachments: tuple[NewAttachment, ...] = ()
    servers: tuple[ServerRow, ...] = ()
    transitions: tuple[TransitionRow, ...] = ()
    gone: tuple[str, ...] = ()


def yielded(stream: str, batch: Batch, wall: float) -> Yielded:
    """A stream's batch as it is stored: its gaps become evidence of kind ``gap``. ``wall``: Unix seconds."""
    gaps = tuple(
        Evidence(
            id=f"gap-{stream}-{wall:.6f}-{number}",
            kind="gap",
            source=stream,
            text=f"{gap.what}: {gap.why}",
            trust=Trust.SERVER,
            wall=wall,
            data=gap.model_dump(exclude_none=True),
        )
        for number, gap in enumerate(batch.gaps)
    )
    return Yielded(stream, batch.cursor, (*batch.evidence, *gaps))
