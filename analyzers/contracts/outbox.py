"""The outbox: one SQLite file in which the agent keeps what must not be lost, and a folder of attachments.

::

    OUTBOX/                    0700, of the agent's user
      outbox.sqlite3           0600, WAL, one writer (the agent), any number of readers
      attachments/SHA256       0600, content-addressed, written and synced before the row that names them
      *.corrupt-TIME…          a damaged outbox that was set aside, never deleted

Reading while the agent writes: ``analyzers.contracts.outbox_read``. A reader opens with ``mode=ro``, keeps no
transaction open over more than one question (a long one keeps the writer's WAL from shrinking), and shows
``user_version`` it does not know instead of guessing.

The hub's side (issue 8 builds it), JSON over HTTP, one incident a call, metadata first::

    POST {hub}/api/v1/incidents                          an IncidentRecord with "manifest" [{name, kind, size,
      ?                                                  sha256}] added
      200|201|202 {"id": ID, "want": [NAME, …]}          stored, and which attachments it would like
      400 | 413 | 422                                    this record is refused for good
      anything else, or an answer that is not that JSON  come again later (Retry-After in seconds is heard)
    PUT {hub}/api/v1/incidents/{ID}/attachments/{NAME}   the bytes, with Content-Length and X-Content-SHA256
      200|201|202|204                                    stored
      400 | 404 | 409 | 410 | 413 | 415 | 422            not wanted after all, for good

``Authorization: Bearer TOKEN`` where the operator set one. Delivery is at least once: ``id`` and ``revision``
name a record, a hub keeps the highest revision, and the same one twice changes nothing. Redirects are not
followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzers.contracts.incident import IncidentRecord

DATABASE = "outbox.sqlite3"
ATTACHMENTS = "attachments"
CORRUPT = "corrupt"  # part of the names of what was set aside
APPLICATION_ID = 0x4C424F58  # "LBOX": a file that is no outbox is not taken for a damaged one
VERSION = 2
SYSTEM_FOLDER = "/var/lib/llama-blackbox/outbox"
USER_FOLDER = "llama-blackbox/outbox"  # below $XDG_STATE_HOME

AGENT_STREAM = "agent"  # its cursor is JSON of the agent's own health, its wall the last sign of life

INCIDENTS_PATH = "/api/v1/incidents"
MAX_NAME = 80  # characters of an attachment's name
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")

TABLES: dict[str, str] = {
    "cursors": "where each stream goes on: name, opaque cursor, Unix seconds of the write",
    "evidence": "a ring of Evidence JSON as it was stored; pid, boot_id and start_time name the life",
    "incidents": "the last revision of every incident's record (JSON); pid and boot_id name the dead server",
    "attachments": "what belongs to an incident: state kept (a file is there) | dropped (it was);"
    " private 1 stays on this host",
    "deliveries": "per sink and incident: highest revision delivered, state pending | delivered | refused",
    "wanted": "attachments a sink asked for: state wanted | delivered | refused | lost",
    "servers": "the last state of each server, JSON of what it is, for `status`",
    "transitions": "a ring of state changes: Unix and monotonic seconds, from, to",
    "counters": "whole numbers by name: dropped_evidence, dropped_attachments, dropped_incidents, …",
}

_V1 = """
CREATE TABLE cursors (stream TEXT PRIMARY KEY, cursor TEXT NOT NULL, wall REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE evidence (seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, kind TEXT NOT NULL, wall REAL,
  mono REAL, boot_id TEXT, pid INTEGER, start_time REAL, size INTEGER NOT NULL, json TEXT NOT NULL);
CREATE TABLE incidents (id TEXT PRIMARY KEY, revision INTEGER NOT NULL, kind TEXT NOT NULL,
  state TEXT NOT NULL, opened REAL NOT NULL, revised REAL NOT NULL, boot_id TEXT, pid INTEGER,
  size INTEGER NOT NULL, json TEXT NOT NULL);
CREATE TABLE attachments (seq INTEGER PRIMARY KEY, incident TEXT NOT NULL, name TEXT NOT NULL,
  kind TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL, state TEXT NOT NULL,
  private INTEGER NOT NULL DEFAULT 0, added REAL NOT NULL, UNIQUE (incident, name));
CREATE TABLE deliveries (sink TEXT NOT NULL, incident TEXT NOT NULL, revision INTEGER NOT NULL,
  state TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, problem TEXT,
  PRIMARY KEY (sink, incident)) WITHOUT ROWID;
CREATE TABLE wanted (sink TEXT NOT NULL, incident TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
  problem TEXT, PRIMARY KEY (sink, incident, name)) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_V2 = """
CREATE TABLE servers (key TEXT PRIMARY KEY, state TEXT NOT NULL, wall REAL NOT NULL, mono REAL,
  json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE transitions (seq INTEGER PRIMARY KEY, key TEXT NOT NULL, before TEXT, after TEXT NOT NULL,
  wall REAL NOT NULL, mono REAL);
CREATE INDEX incidents_by_state ON incidents (state, opened);
CREATE INDEX incidents_by_revision ON incidents (opened, id, revision);
CREATE INDEX attachments_by_age ON attachments (state, seq);
"""
MIGRATIONS: tuple[str, ...] = (_V1, _V2)  # the n-th one makes version n out of version n - 1

OPEN, CLOSED = "open", "closed"
KEPT, DROPPED = "kept", "dropped"
PENDING, DELIVERED, REFUSED = "pending", "delivered", "refused"
WANTED, LOST = "wanted", "lost"


@dataclass(frozen=True)
class AttachmentRow:
    """One attachment's metadata. ``size`` in bytes; ``private`` ones never leave this host."""

    incident: str
    name: str
    kind: str
    size: int
    sha256: str
    state: str = KEPT
    private: bool = False
    added: float = 0.0


@dataclass(frozen=True)
class ServerRow:
    """The last state of one server. ``key`` names its life; ``about`` is the JSON of what is known of it."""

    key: str
    state: str
    wall: float
    mono: float | None = None
    about: str = "{}"


@dataclass(frozen=True)
class TransitionRow:
    """One change of state. Unix seconds and CLOCK_MONOTONIC seconds of the moment it was seen."""

    key: str
    after: str
    wall: float
    before: str | None = None
    mono: float | None = None


@dataclass(frozen=True)
class DeliveryRow:
    """How far one sink is with one incident."""

    sink: str
    incident: str
    revision: int
    state: str
    attempts: int = 0
    problem: str | None = None


@dataclass(frozen=True)
class IncidentRow:
    """One incident as it is stored. ``record`` is None when its JSON cannot be read (``problem`` says so)."""

    id: str
    revision: int
    kind: str
    state: str
    opened: float
    revised: float
    record: IncidentRecord | None = None
    problem: str | None = None


def fit_name(name: str) -> bool:
    """Whether an attachment may be called ``name``: one plain file name, safe in a path and in a URL."""
    return _NAME.fullmatch(name) is not None
