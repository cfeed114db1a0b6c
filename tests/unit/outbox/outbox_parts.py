"""What the outbox's tests store."""

from __future__ import annotations

from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.incident import IncidentRecord, ServerName, incident_id
from collector.outbox.store import Store, open_store
from collector.outbox.write import Write, Yielded

BOOT = "0123456789abcdef0123456789abcdef"


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def life(pid: int = 42) -> Incarnation:
    return Incarnation(pid=pid, start_time=12.5, boot_id=BOOT)


def fact(number: int, pid: int = 42, text: str = "a line") -> Evidence:
    return Evidence(
        id=f"e{number}",
        kind="log-line",
        source="journal",
        text=f"{text} {number}",
        trust=Trust.SERVER,
        wall=1000.0 + number,
        incarnation=life(pid),
    )


def facts(first: int, number: int, stream: str = "journal", pid: int = 42, text: str = "a line") -> Write:
    found = tuple(fact(at, pid, text) for at in range(first, first + number))
    return Write(yields=(Yielded(stream, f"c{first + number}", found),))


def incident(
    pid: int = 42, *, revision: int = 1, state: str = "open", summary: str = "died"
) -> IncidentRecord:
    return IncidentRecord(
        id=incident_id("death", life(pid)),
        revision=revision,
        kind="death",
        state=state,
        opened_wall=1000.0 + pid,
        revised_wall=1000.0 + pid + revision,
        boot_id=BOOT,
        server=ServerName(unit="llama.service", model="tiny", port=8080, incarnation=life(pid)),
        summary=summary,
    )


def store(tmp_path: Path, mono: Clock | None = None, **options: int) -> Store:
    return open_store(tmp_path / "outbox", wall=Clock(5000.0), mono=mono or Clock(), **options)
