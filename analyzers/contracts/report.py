"""Report: the answer, as versioned JSON. Terminal, Markdown, HTML and hub views are renderings of it.

Within a major version fields are only added; unknown fields are kept and unknown ids are shown.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.registry import REPORT_SCHEMA


class Part(BaseModel):
    """Base of every part: immutable, and a newer writer's fields survive a round trip."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)


class InputFile(Part):
    name: str
    kind: str
    size: int = 0
    sha256: str | None = None


class Advice(Part):
    text: str
    command: str | None = None


class Verdict(Part):
    class_: str = Field(alias="class")
    cause: str = "unknown"
    defect: str | None = None
    phase: str = "unknown"
    confidence: str = "undetermined"
    summary: str = ""
    handler: str | None = Field(default=None, description="route handler on the faulting stack")
    advice: list[Advice] = []
    evidence: list[Evidence] = []
    reasons: list[str] = Field(default=[], description="why this verdict and not its look-alike, in order")


class Signature(Part):
    bug_key: str | None = None
    site_key: str | None = None
    version: int = 1
    explain: list[str] = []


class Model(Part):
    path: str | None = None
    name: str | None = Field(default=None, description="the name a router knows it by")
    size: int | None = None
    mtime: float | None = None


class Parent(Part):
    """The router whose child a process was. ``start_time`` is seconds since boot.

    ``tid`` is the router's thread that started the child, all that a core's notes tell of the parent.
    """

    pid: int | None = None
    tid: int | None = None
    start_time: float | None = None
    port: int | None = None


class Process(Part):
    pid: int | None = None
    start_time: float | None = None
    boot_id: str | None = None
    exe: str | None = None
    build: str | None = None
    build_id: str | None = None
    model: Model = Model()
    args: list[str] = []
    signal: str | None = None
    code: int | None = None
    fault_address: str = "unknown"
    role: str | None = None
    port: int | None = Field(default=None, description="the TCP port it listened on")
    parent: Parent | None = Field(default=None, description="a router's child: the router")


class FrameView(Part):
    function: str | None = None
    module: str | None = None
    offset: str | None = None
    file: str | None = None
    line: int | None = None
    repeat: int = 1
    telling: bool = Field(default=False, description="this frame decided the verdict")
    trust: str | None = Field(
        default=None, description="how it is known: register | unwound | scanned | guessed | printed"
    )


class Thread(Part):
    tid: int | None = None
    name: str | None = None
    crashed: bool = False
    role: str | None = Field(default=None, description="queue-loop, http or None")
    rung: str = "unknown"
    trust: str | None = Field(default=None, description="one sentence on how these frames were found")
    frames: list[FrameView] = []


class TimelineItem(Part):
    """One moment. ``at`` is seconds on the timeline's own clock (``clock``), rising."""

    at: float
    clock: str = Field(description="elapsed | wall | mono")
    event: str
    text: str
    source: str | None = None
    trust: str | None = None
    dated: bool = Field(default=True, description="False: it came after the item before; how long is unknown")


class Gap(Part):
    what: str
    why: str
    command: str | None = None


class Death(Part):
    """One incident of an input that holds several: its line of the table. ``number`` is what
    ``--incident`` takes, from 1, in the order of the table. ``at`` is Unix seconds, None when no clock says.
    """

    number: int
    class_: str = Field(alias="class")
    defect: str | None = None
    cause: str = "unknown"
    phase: str = "unknown"
    confidence: str = "undetermined"
    handler: str | None = None
    top_frame: str | None = Field(default=None, description="the first telling frame of the faulting stack")
    pid: int | None = None
    build: str | None = None
    at: float | None = None
    inputs: list[str] = Field(default=[], description="names of the inputs that it was joined from")
    witnesses: list[str] = Field(
        default=[], description="kinds of evidence that were joined: core, self-trace, kernel, supervisor, …"
    )
    bug_key: str | None = None
    site_key: str | None = None


class FrameCount(Part):
    function: str
    count: int = 1


class Incident(Part):
    """A group of incidents that are likely one bug. ``deaths`` are its members."""

    key: str
    title: str
    class_: str = Field(alias="class")
    count: int = 1
    pids: list[int] = []
    defect: str | None = None
    top_frames: list[FrameCount] = Field(default=[], description="most frequent first")
    keys: list[str] = Field(default=[], description="the exact bug keys that were joined")
    explain: list[str] = Field(default=[], description="why these are one group, and what was kept apart")
    deaths: list[Death] = []


class ClockOffset(Part):
    """Two clocks of one incident's sources, compared. ``clock`` reads ``seconds`` more than ``to``.

    ``spread`` is the width of the interval that the pairs leave, in seconds; ``pairs`` is how many moments
    both clocks name.
    """

    clock: str = Field(description="elapsed | mono | kernel | wall, with its source")
    to: str
    seconds: float
    spread: float | None = None
    pairs: int = 1
    explain: str = ""


class Tool(Part):
    name: str = "llama-blackbox"
    version: str
    catalogue: str


class Host(Part):
    arch: str | None = None
    libc: str | None = None
    gpu: str | None = None
    kernel: str | None = None


class Report(Part):
    schema_: str = Field(default=REPORT_SCHEMA, alias="schema")
    tool: Tool
    inputs: list[InputFile] = []
    redaction: str = "default"
    host: Host = Host()
    incidents: list[Incident] = Field(default=[], description="groups; empty when there is one incident")
    overview: str = Field(default="", description="one sentence over all incidents, when there are several")
    incident: int = Field(default=1, description="the number of the incident that the verdict is about")
    clocks: list[ClockOffset] = []
    verdict: Verdict
    signature: Signature = Signature()
    process: Process = Process()
    threads: list[Thread] = []
    timeline: list[TimelineItem] = []
    gaps: list[Gap] = []

    def to_json(self) -> str:
        """The stable JSON form, by the published names (``class``, ``schema``)."""
        return self.model_dump_json(by_alias=True, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Read any report of this major version. Raises pydantic.ValidationError when it is no report."""
        return cls.model_validate_json(text)


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the report."""
    return Report.model_json_schema(by_alias=True)
