"""Objects as table rows: sizes bounded, text that no database takes replaced."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox_read import plain_boot
from collector.outbox.limits import MAX_EVIDENCE, MAX_RECORD, MAX_SIGNS, MAX_TEXT

_MOST_INTEGER = (1 << 63) - 1  # SQLite's
Row = tuple[Any, ...]


def evidence_row(stream: str, item: Evidence) -> Row:
    """(stream, kind, wall, mono, boot_id, pid, start_time, size, json); size is that of the JSON."""
    text = to_json(item)
    if len(text) > MAX_EVIDENCE:
        cut: dict[str, Any] = {
            "text": item.text[:MAX_TEXT],
            "data": {"cut": len(text)},
            "source": item.source[:MAX_TEXT],
        }
        text = to_json(Evidence(id=item.id[:MAX_TEXT], kind=item.kind[:80], trust=item.trust, **cut))
    life = item.incarnation
    boot = plain_boot(life.boot_id)
    return (
        plain(stream),
        plain(item.kind[:80]),
        number(item.wall),
        number(item.mono),
        plain(boot) if boot else None,
        whole(life.pid),
        number(life.start_time),
        len(text),
        text,
    )


def incident_row(record: IncidentRecord) -> Row:
    """(id, revision, kind, state, opened, revised, boot_id, pid, size, json)."""
    text = to_json(record)
    if len(text) > MAX_RECORD:
        short = {"signs": record.signs[:MAX_SIGNS], "notes": record.notes[:MAX_SIGNS], "gaps": []}
        text = to_json(record.model_copy(update=short))
    if len(text) > MAX_RECORD:
        bare: dict[str, Any] = dict.fromkeys(("verdict", "signature", "restart"))
        bare |= {key: [] for key in ("signs", "gaps", "deaths", "attachments")}
        bare |= {"summary": record.summary[:MAX_TEXT], "notes": ["the record was too large: cut"]}
        text = to_json(record.model_copy(update=bare))
    life = record.server.incarnation
    boot = plain_boot(record.boot_id or life.boot_id)
    return (
        plain(record.id),
        whole(record.revision) or 0,
        plain(record.kind),
        plain(record.state),
        number(record.opened_wall) or 0.0,
        number(record.revised_wall) or 0.0,
        plain(boot) if boot else None,
        whole(life.pid),
        len(text),
        text,
    )


def to_json(item: BaseModel) -> str:
    """By the published names. Half characters (a log that is no UTF-8) become question marks."""
    try:
        return item.model_dump_json(by_alias=True)
    except (PydanticSerializationError, UnicodeError):
        return plain(json.dumps(_finite(item.model_dump(by_alias=True)), ensure_ascii=False, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def whole(value: int | None) -> int | None:
    return value if value is not None and abs(value) <= _MOST_INTEGER else None
