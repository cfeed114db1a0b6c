"""The manifest of a bundle, the hand-over format between hosts, people and this tool.

A bundle is a folder or an archive of ``manifest.json``, ``evidence.jsonl`` and any files. Any subset is
valid: every field is optional, unknown fields and ids are kept, and only a newer major version is refused.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from analyzers.contracts.evidence import Incarnation
from analyzers.contracts.registry import BUNDLE_SCHEMA
from analyzers.contracts.report import Gap, Host, Process

MANIFEST_NAME = "manifest.json"
EVIDENCE_NAME = "evidence.jsonl"
CONTEXT = "context"  # kind of a file that is there for people: a list of mappings, limits, a unit's state
REDACTED = "default"
NOT_REDACTED = "none"
_SCHEMA = re.compile(r"llama-blackbox/bundle/(\d{1,6})(?:\.\d{1,6})?")


class BundlePart(BaseModel):
    """Base of every part: immutable, and a newer writer's fields survive a round trip."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)


class BundleTool(BundlePart):
    """Who wrote the bundle."""

    name: str = "llama-blackbox"
    version: str | None = None


class BundleFile(BundlePart):
    """One file: ``path`` inside the bundle, with ``/``; ``size`` in bytes and ``sha256`` of its content."""

    path: str
    kind: str = "unknown"
    size: int | None = None
    sha256: str | None = None


class Manifest(BundlePart):
    """What a bundle holds. ``created`` is Unix seconds on the writing host's wall clock."""

    schema_: str = Field(default=BUNDLE_SCHEMA, alias="schema")
    tool: BundleTool = BundleTool()
    created: float | None = None
    host: Host = Host()
    process: Process | None = None
    incarnations: tuple[Incarnation, ...] = ()
    redaction: str = Field(default=REDACTED, description="default, or none when private data was asked for")
    memory: bool = Field(default=False, description="a core, or other memory of a process, is inside")
    files: tuple[BundleFile, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def to_json(self) -> str:
        """The stable JSON form, by the published names (``schema``)."""
        return self.model_dump_json(by_alias=True, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Read any manifest of this major version. Raises pydantic.ValidationError when it is none."""
        return cls.model_validate_json(text)

    @property
    def major(self) -> int | None:
        """The major version its schema names; None when the schema is not a bundle's."""
        named = _SCHEMA.fullmatch(self.schema_)
        return int(named.group(1)) if named else None


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the manifest."""
    return Manifest.model_json_schema(by_alias=True)
