"""What is pending, as statements of one open transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from analyzers.contracts.outbox import KEPT
from collector.outbox.blobs import Staged
from collector.outbox.limits import MAX_TRANSITIONS
from collector.outbox.pending import EVIDENCE_SIZE, Pending
from collector.outbox.rows import Row

EVIDENCE_BYTES = "evidence_bytes"  # a running sum: summing a quarter of a gigabyte would take seconds
_EVIDENCE = (
    "INSERT OR IGNORE INTO evidence (seq, stream, kind, wall, mono, boot_id, pid, start_time, size, json) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_CURSOR = "INSERT OR REPLACE INTO cursors (stream, cursor, wall) VALUES (?, ?, ?)"
_INCIDENT = (
    "INSERT INTO incidents (id, revision, kind, state, opened, revised, boot_id, pid, size, json) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, "
    "kind = excluded.kind, state = excluded.state, opened = excluded.opened, revised = excluded.revised, "
    "boot_id = excluded.boot_id, pid = excluded.pid, size = excluded.size, json = excluded.json "
    "WHERE excluded.revision > incidents.revision"
)
_ATTACHMENT = (
    "INSERT OR REPLACE INTO attachments (incident, name, kind, size, sha256, state, private, added) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_SERVER = "INSERT OR REPLACE INTO servers (key, state, wall, mono, json) VALUES (?, ?, ?, ?, ?)"
_TRANSITION = "INSERT INTO transitions (key, before, after, wall, mono) VALUES (?, ?, ?, ?, ?)"
_PROGRESS = (
    "INSERT INTO deliveries (sink, incident, revision, state, attempts, problem) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (sink, incident) DO UPDATE SET revision = max(revision, excluded.revision), "
    "state = excluded.state, attempts = excluded.attempts, problem = excluded.problem"
)
_ASKED = "INSERT OR REPLACE INTO wanted (sink, incident, name, state, problem) VALUES (?, ?, ?, ?, ?)"
_COUNT = (
    "INSERT INTO counters (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
)


def apply(db: sqlite3.Connection, pending: Pending, staged: Sequence[Staged], wall: float) -> list[str]:
    """Run the statements. Returns digests of files that may not be named any more. Raises sqlite3.Error."""
    db.executemany(_EVIDENCE, _numbered(db, pending))
    db.executemany(_CURSOR, [(stream, cursor, wall) for stream, cursor in pending.cursors.items()])
    db.executemany(_INCIDENT, pending.incidents.values())
    replaced = [old for each in staged if (old := _attach(db, each, wall)) is not None]
    db.executemany(_PROGRESS, pending.progress.values())
    db.executemany(_ASKED, pending.asked.values())
    _status(db, pending)
    count(db, {**pending.dropped, EVIDENCE_BYTES: sum(row[EVIDENCE_SIZE] for row in pending.evidence)})
    return replaced


def _numbered(db: sqlite3.Connection, pending: Pending) -> Iterator[Row]:
    """The facts with numbers that stay theirs: a commit that was reported as failed (a sync that gave an
    error) may yet be found done when the log is recovered, and then nothing must be there twice."""
    if pending.first is None:
        pending.first = (db.execute("SELECT max(seq) FROM evidence").fetchone()[0] or 0) + 1
    return ((number, *row) for number, row in enumerate(pending.evidence, pending.first))


def count(db: sqlite3.Connection, counts: Mapping[str, int]) -> None:
    """Add to the counters."""
    db.executemany(_COUNT, [(name, value) for name, value in counts.items() if value])


def _attach(db: sqlite3.Connection, staged: Staged, wall: float) -> str | None:
    """Name the file; the digest that the same name had before, when it is another one."""
    new = staged.new
    old = db.execute(
        "SELECT sha256 FROM attachments WHERE incident = ? AND name = ?", (new.incident, new.name)
    ).fetchone()
    row = (new.incident, new.name, new.kind, staged.size, staged.sha256, KEPT, int(new.private), wall)
    db.execute(_ATTACHMENT, row)
    if old is None or old[0] == staged.sha256:
        return None
    db.execute("DELETE FROM wanted WHERE incident = ? AND name = ?", (new.incident, new.name))
    return str(old[0])


def _status(db: sqlite3.Connection, pending: Pending) -> None:
    db.executemany("DELETE FROM servers WHERE key = ?", [(key,) for key in pending.gone])
    servers = pending.servers.values()
    db.executemany(_SERVER, [(one.key, one.state, one.wall, one.mono, one.about) for one in servers])
    if pending.transitions:
        db.executemany(
            _TRANSITION, [(one.key, one.before, one.after, one.wall, one.mono) for one in pending.transitions]
        )
        db.execute(
            "DELETE FROM transitions WHERE seq <= (SELECT max(seq) FROM transitions) - ?", (MAX_TRANSITIONS,)
        )
