"""One incident as the agent opens and revises it: the metadata that goes to the outbox and to a hub.

Two to twenty kilobytes, free of prompts and keys. ``id`` never changes; a later evidence gives a higher
``revision``. The whole report and the evidence are attachments, asked for separately.
"""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict, Field

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.report import Gap, Signature, Verdict

ID_LENGTH = 24  # hexadecimal digits: 96 bits
INCIDENT_SCHEMA = "llama-blackbox/incident/1"

INCIDENT_KINDS: dict[str, str] = {
    "death": "a server's process ended by a fault or was killed",
    "stranded": "requests wait at a sleeping server that nothing will wake",
    "hang": "a server has work and makes no progress",
    "crash-loop": "a server dies again and again",
    "restart-unexplained": "a server was started again and nothing says why the one before ended",
    "error": "the server lives and answers what it must not",
}


class IncidentPart(BaseModel):
    """Frozen, and keeps fields of a newer version."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)


class ServerName(IncidentPart):
    """Which server it was, in the words of whoever runs it."""

    host: str | None = None
    unit: str | None = None
    container: str | None = None
    model: str | None = None
    port: int | None = None
    role: str | None = None
    build: str | None = None
    incarnation: Incarnation = Incarnation()
    parent: Incarnation | None = None


class Restart(IncidentPart):
    """What came after the death. ``reason``: supervisor | router | planned | unknown; ``limit_hit`` when the
    supervisor gave up (StartLimit)."""

    wall: float | None = None
    incarnation: Incarnation = Incarnation()
    reason: str = "unknown"
    limit_hit: bool = False
    count: int | None = None


class IncidentRecord(IncidentPart):
    """The record. ``state``: open | closed; ``opened_wall``/``revised_wall`` Unix seconds; ``signs`` the few
    facts that opened and revised it, hardest first; ``verdict`` and ``signature`` are triage's last."""

    schema_: str = Field(default=INCIDENT_SCHEMA, alias="schema")
    id: str
    revision: int = 1
    kind: str
    state: str = "open"
    opened_wall: float
    opened_mono: float | None = None
    revised_wall: float
    boot_id: str | None = None
    server: ServerName = ServerName()
    summary: str = ""
    verdict: Verdict | None = None
    signature: Signature | None = None
    group: str | None = None
    signs: list[Evidence] = []
    gaps: list[Gap] = []
    restart: Restart | None = None
    deaths: list[str] = Field(default=[], description="ids of the deaths that a crash loop consists of")
    attachments: list[str] = Field(default=[], description="names of attachments in the outbox")
    notes: list[str] = []


def incident_id(kind: str, incarnation: Incarnation, subject: str = "") -> str:
    """The id of the one incident of this kind and life: the same facts give the same id on every host.

    ``subject`` tells apart what may befall one life more than once (which stranded request, which loop).
    """
    started = "" if incarnation.start_time is None else f"{incarnation.start_time:.2f}"
    boot = (incarnation.boot_id or "").replace("-", "").lower()
    parts = "\x1f".join((kind, boot, str(incarnation.pid or ""), started, subject))
    return hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()[:ID_LENGTH]
