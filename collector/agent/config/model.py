"""What may stand in the agent's TOML file. Unknown names are refused: a typing error must not be silence."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

# The figures of the monitoring issue: a stranded request is told T + 1 s after it began.
DEFAULT_STRANDED_SECONDS = 10.0
DEFAULT_HUNG_SECONDS = (
    30.0  # a slow disk makes a load pause for seconds; nothing known pauses for half a minute
)
DEFAULT_PROBE_SECONDS = 10.0
DEFAULT_OUTBOX_BYTES = 1 << 30
MAX_NAME = 200

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Seconds = Annotated[float, Field(gt=0, le=86400)]


class Table(BaseModel):
    """One table of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentTable(Table):
    """``tick_seconds`` between looks at sockets and processes; ``helper_socket`` of the privileged helper."""

    tick_seconds: Annotated[float, Field(ge=0.2, le=10)] = 1.0
    log_level: Literal["error", "warning", "info", "debug"] = "info"
    helper_socket: Path | None = None


class ProbesTable(Table):
    """HTTP questions that neither wake a model nor keep one awake; ``metrics`` alone has side effects."""

    enabled: bool = True
    every_seconds: Seconds = DEFAULT_PROBE_SECONDS
    timeout_seconds: Annotated[float, Field(gt=0, le=30)] = 2.0
    metrics: bool = False


class StrandedTable(Table):
    """A request at a sleeping server that nobody will answer. ``release`` wakes the server for it."""

    after_seconds: Annotated[float, Field(ge=2, le=3600)] = DEFAULT_STRANDED_SECONDS
    release: bool = False


class HungTable(Table):
    """Work without any progress."""

    after_seconds: Annotated[float, Field(ge=5, le=86400)] = DEFAULT_HUNG_SECONDS


class SourcesTable(Table):
    """Which sources are read. ``namespaces`` are further journal namespaces, ``journal_folders`` folders."""

    journal: bool = True
    namespaces: tuple[Name, ...] = ()
    journal_folders: tuple[Path, ...] = ()
    log_files: tuple[Path, ...] = ()
    own_log_files: bool = True
    containers: bool = True
    kernel: bool = True
    units: bool = True
    captures: Path | None = Path("/var/lib/llama-blackbox/captures")
    core_folders: tuple[Path, ...] = ()
    devices: bool = True
    plugins: bool = True


class OutboxTable(Table):
    """Where and how much the agent keeps on this host, attachments and evidence together. ``folder`` None:
    the system's for root, else the user's own state folder."""

    folder: Path | None = None
    max_bytes: Annotated[int, Field(ge=16 << 20, le=1 << 40)] = DEFAULT_OUTBOX_BYTES


class HubTable(Table):
    """Where incidents are sent, if anywhere."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s@]{1,300}$")]
    token_file: Path | None = None
    ca_file: Path | None = None


class TargetTable(Table):
    """What the operator says of one server. It is named by ``port``, ``socket``, ``unit``, ``container`` or
    ``model``; every one given must fit. ``watch`` False leaves it alone altogether."""

    port: Annotated[int, Field(gt=0, lt=65536)] | None = None
    socket: Path | None = None
    unit: Name | None = None
    container: Name | None = None
    model: Name | None = None
    watch: bool = True
    probe: bool | None = None
    metrics: bool | None = None
    release: bool | None = None
    api_key_file: Path | None = None
    host: str | None = None
    scheme: Literal["http", "https"] | None = None
    prefix: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9_.~-]{1,100}){1,8}$")] | None = None

    @field_validator("host")
    @classmethod
    def _numeric(cls, host: str | None) -> str | None:
        if host is not None:
            ipaddress.ip_address(host)
        return host

    @model_validator(mode="after")
    def _named(self) -> TargetTable:
        if not any((self.port, self.socket, self.unit, self.container, self.model)):
            raise ValueError("names no server: give port, socket, unit, container or model")
        return self


class Config(Table):
    """The whole file; every table may be absent."""

    agent: AgentTable = AgentTable()
    probes: ProbesTable = ProbesTable()
    stranded: StrandedTable = StrandedTable()
    hung: HungTable = HungTable()
    sources: SourcesTable = SourcesTable()
    outbox: OutboxTable = OutboxTable()
    hub: HubTable | None = None
    target: tuple[TargetTable, ...] = ()
