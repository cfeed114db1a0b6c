"""Reads an outbox that an agent may be writing to at this moment. Never writes, never blocks the writer.

Every question is one short statement of its own: a reader that keeps a transaction open would keep the
writer's log from being folded back into the database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox import (
    AGENT_STREAM,
    APPLICATION_ID,
    ATTACHMENTS,
    DATABASE,
    KEPT,
    VERSION,
    AttachmentRow,
    DeliveryRow,
    IncidentRow,
    ServerRow,
    TransitionRow,
)
from analyzers.errors import UserError

BUSY_SECONDS = 2.0  # a writer holds readers up only while it recovers a log after a crash: milliseconds
MAX_RECORD = 1 << 20  # characters of one record's JSON; a good one has two to twenty thousand
MAX_ROWS = 100_000
MAX_INCIDENTS = 2000  # of one list: more than anybody reads, parsed in a second
_START_SLACK = 0.02  # seconds: start times are told in clock ticks of a hundredth of a second


class OutboxReader:
    """An open outbox. Rows come as frozen objects; what cannot be parsed is told, not raised."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._db = connection

    def incidents(self, limit: int = MAX_INCIDENTS, beginning: str = "") -> list[IncidentRow]:
        """The newest incidents first, those whose id begins with ``beginning``."""
        rows = self._all(
            "SELECT id, revision, kind, state, opened, revised, CASE WHEN length(json) <= ? THEN json END "
            "FROM incidents WHERE substr(id, 1, ?) = ? ORDER BY opened DESC, id LIMIT ?",
            (MAX_RECORD, len(beginning), beginning, limit),
        )
        return [_incident(row) for row in rows]

    def count(self) -> int:
        """Incidents in all."""
        return int(self._all("SELECT count(*) FROM incidents", ())[0][0])

    def incidents_revised_after(self, revised: float, limit: int = 1000) -> list[IncidentRow]:
        """Incidents revised at or after ``revised`` (Unix seconds), the oldest revision first."""
        rows = self._all(
            "SELECT id, revision, kind, state, opened, revised, CASE WHEN length(json) <= ? THEN json END "
            "FROM incidents WHERE revised >= ? ORDER BY revised, id LIMIT ?",
            (MAX_RECORD, revised, limit),
        )
        return [_incident(row) for row in rows]

    def attachments(self, incident: str) -> list[AttachmentRow]:
        """What belongs to one incident, by name."""
        rows = self._all(
            "SELECT incident, name, kind, size, sha256, state, private, added FROM attachments "
            "WHERE incident = ? ORDER BY name",
            (incident,),
        )
        return [attachment_row(*row) for row in rows]

    def attachment_path(self, row: AttachmentRow) -> Path | None:
        """Its file; None when it was dropped or is not there. Open it without following links."""
        path = self.folder / ATTACHMENTS / row.sha256
        sound = row.state == KEPT and len(row.sha256) == 64 and row.sha256.isalnum()
        return path if sound and path.is_file() and not path.is_symlink() else None

    def deliveries(self, incident: str) -> list[DeliveryRow]:
        """How far each sink is with one incident."""
        rows = self._all(
            "SELECT sink, incident, revision, state, attempts, problem FROM deliveries WHERE incident = ?",
            (incident,),
        )
        return [DeliveryRow(*row) for row in rows]

    def evidence_of(self, life: Incarnation, limit: int = 5000) -> list[Evidence]:
        """The newest ``limit`` facts about one life that are still in the ring, oldest first."""
        if life.pid is None:
            return []
        rows = self._all(
            "SELECT json FROM evidence WHERE pid = ? AND (boot_id IS NULL OR ? IS NULL OR boot_id = ?) "
            "AND (start_time IS NULL OR ? IS NULL OR abs(start_time - ?) <= ?) ORDER BY seq DESC LIMIT ?",
            (life.pid, *[plain_boot(life.boot_id)] * 2, *[life.start_time] * 2, _START_SLACK, limit),
        )
        found = (_evidence(row[0]) for row in reversed(rows))
        return [item for item in found if item is not None]

    def servers(self) -> list[ServerRow]:
        """The last state of each server."""
        rows = self._all("SELECT key, state, wall, mono, json FROM servers ORDER BY key LIMIT ?", (MAX_ROWS,))
        return [ServerRow(*row) for row in rows]

    def transitions(self, since: float = 0.0, limit: int = 10_000) -> list[TransitionRow]:
        """State changes since ``since`` (Unix seconds), oldest first."""
        rows = self._all(
            "SELECT key, after, wall, before, mono FROM transitions WHERE wall >= ? "
            "ORDER BY seq DESC LIMIT ?",
            (since, limit),
        )
        return [TransitionRow(*row) for row in reversed(rows)]

    def cursors(self) -> dict[str, str]:
        """Where each stream goes on."""
        return dict(self._all("SELECT stream, cursor FROM cursors", ()))

    def agent(self) -> tuple[float, str] | None:
        """The agent's last sign of life: Unix seconds, and JSON of its own health; None before the first."""
        rows = self._all("SELECT wall, cursor FROM cursors WHERE stream = ?", (AGENT_STREAM,))
        return (float(rows[0][0]), str(rows[0][1])) if rows else None

    def counters(self) -> dict[str, int]:
        """What was dropped and refused, by name."""
        return dict(self._all("SELECT name, value FROM counters", ()))

    def _all(self, question: str, values: tuple[object, ...]) -> list[Any]:
        return self._db.execute(question, values).fetchall()


def plain_boot(boot_id: str | None) -> str | None:
    """A boot id as the tables hold it: lower case, without dashes."""
    return boot_id.replace("-", "").lower() if boot_id else None


@contextmanager
def open_reading(folder: Path) -> Iterator[OutboxReader]:
    """The outbox in ``folder``, read-only. Raises UserError when there is none that can be read, or it is of
    a newer version; damage met while reading becomes a UserError too."""
    path = folder / DATABASE
    try:
        if not path.is_file():
            raise UserError(
                "there is no outbox", where=str(folder), remedy="start the agent, or name one with --outbox"
            )
        with closing(_connect(path)) as connection:
            demand_known(connection, folder)
            yield OutboxReader(folder, connection)
    except PermissionError as error:
        remedy = "run it as root or as the agent's user"
        raise UserError("it may not be read", where=str(folder), remedy=remedy) from error
    except sqlite3.Error as error:
        remedy = "run it as the agent's user; a damaged one is set aside when the agent starts again"
        raise UserError(f"it cannot be read ({error})", where=str(path), remedy=remedy) from error


def demand_known(connection: sqlite3.Connection, folder: Path) -> None:
    """Raises UserError for a database that is no outbox or one of a newer version."""
    number = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if number != APPLICATION_ID:
        raise UserError(
            "it is no outbox of llama-blackbox", where=str(folder / DATABASE), remedy="name another folder"
        )
    if version > VERSION:
        raise UserError(
            f"its version {version} is newer than this program knows ({VERSION})",
            where=str(folder / DATABASE),
            remedy="update llama-blackbox",
        )


def _connect(path: Path) -> sqlite3.Connection:
    """Read-only. A folder this user cannot write to (a copy, a mounted image) has no place for the shared
    index: it is then read as a file that nobody changes, which is only right without a log beside it."""
    place = quote(str(path.absolute()))
    connection = _open(f"file:{place}?mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise
    return _open(f"file:{place}?mode=ro&immutable=1")


def _open(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    connection.execute("PRAGMA query_only = 1")
    connection.execute("PRAGMA trusted_schema = 0")
    return connection


def attachment_row(*row: Any) -> AttachmentRow:
    """(incident, name, kind, size, sha256, state, private, added) as selected."""
    incident, name, kind, size, sha256, state, private, added = row
    return AttachmentRow(incident, name, kind, size, sha256, state, bool(private), added)


def _incident(row: tuple[Any, ...]) -> IncidentRow:
    ident, revision, kind, state, opened, revised, text = row
    record, problem = _record(text)
    return IncidentRow(ident, revision, kind, state, opened, revised, record, problem)


def _record(text: object) -> tuple[IncidentRecord | None, str | None]:
    if not isinstance(text, str | bytes):
        return None, "its record is too large"
    try:
        return IncidentRecord.model_validate_json(text), None
    except ValidationError as error:
        return None, f"its record cannot be read ({error.error_count()} faults)"


def _evidence(text: object) -> Evidence | None:
    try:
        return Evidence.model_validate_json(text) if isinstance(text, str | bytes) else None
    except ValidationError:
        return None
