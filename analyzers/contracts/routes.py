"""The route matrix: what every call does to a server in every state, build by build, as versioned JSON.

A cell is what was seen of one route in one state of one build. What was not reached says so and says nothing
else; what a build does not have is a row without cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from analyzers.contracts.trials import (
    BAD,
    CRASHED,
    INCONCLUSIVE,
    SERVER_ERROR,
    STRANDED,
    WRONG_ANSWER,
    Finding,
    Part,
    Subject,
    Trial,
)

ROUTES_SCHEMA = "llama-blackbox/routes/1"

AWAKE, ASLEEP, UNLOADING, WAKING, TWO_WAKERS = "awake", "asleep", "unloading", "waking", "two-wakers"
STATES: dict[str, str] = {
    AWAKE: "the model is loaded and the server idle, late in its idle time",
    ASLEEP: "the model is freed and nothing is under way",
    UNLOADING: "sent after the line `entering sleeping state` and before the model was freed",
    WAKING: "sent after the line `exiting sleeping state` and before the model was loaded",
    TWO_WAKERS: "sent to a sleeping server at the same moment as a completion",
}

# What the documentation promises of a route in a build.
SILENT, WORKS = "silent", "works"
PROMISES: dict[str, str] = {
    SILENT: "neither wakes the server nor resets its idle timer",
    WORKS: "is work: wakes the server, is answered, and counts as activity",
}
KEPT, BROKEN, NO_PROMISE = "kept", "broken", "none"

# How right an answer is.
RIGHT, WRONG, STATUS_ONLY = "yes", "no", "status"
RIGHTNESS: dict[str, str] = {
    RIGHT: "as the awake server answers",
    WRONG: "not as the awake server answers",
    STATUS_ONLY: "the status is the awake one; right answers of this route differ among themselves",
}

# What a call means for someone who wants to poll it.
SAFE, RESETS, WAKES, KEEPS_AWAKE, DANGEROUS, UNKNOWN, ABSENT = (
    "safe",
    "resets",
    "wakes",
    "keeps-awake",
    "dangerous",
    "unknown",
    "absent",
)
MEANINGS: dict[str, str] = {
    SAFE: "neither wakes the server nor keeps it awake",
    RESETS: "keeps an awake server awake, and leaves a sleeping one asleep",
    WAKES: "wakes a sleeping server and does not keep it awake: polled, it sleeps and reloads in turn",
    KEEPS_AWAKE: "wakes the server and keeps it awake for as long as it is polled",
    DANGEROUS: "crashed the server, was stranded, or was answered wrongly in some state",
    UNKNOWN: "not enough was reached to say",
    ABSENT: "this build has no such route",
}


class RouteTrial(Trial):
    """One request in one state, as the verifier keeps it: a trial and what it did to the server."""

    handler: str = ""
    wakes: bool | None = Field(default=None, description="a sleeping server woke for it")
    resets: bool | None = Field(default=None, description="sleep came later because of it")
    right: str | None = None
    awake_status: int | None = Field(default=None, description="what the awake server answers")
    promised: str | None = None
    promise: str = NO_PROMISE
    tries: int = Field(default=1, description="how often it was sent until the state was really met")
    absent: bool = False


class RouteCell(Part):
    """One route in one state. ``ms``: from sending to the answer, milliseconds."""

    state: str
    outcome: str
    reached: bool = True
    status: int | None = None
    right: str | None = None
    wakes: bool | None = None
    resets: bool | None = None
    ms: float | None = None
    promise: str = NO_PROMISE
    tries: int = 1
    signal: int | None = None
    defect: str | None = None
    class_: str | None = Field(default=None, alias="class")
    note: str | None = None


class RouteRow(Part):
    """One route of one build; ``status``: its awake answer, ``promised``: what its documentation says."""

    route: str
    handler: str = ""
    absent: bool = False
    status: int | None = None
    promised: str | None = None
    cells: list[RouteCell] = Field(default=[])

    def cell(self, state: str) -> RouteCell | None:
        return next((cell for cell in self.cells if cell.state == state), None)


class Width(Part):
    """How long unloading and waking lasted with the widening model: milliseconds, medians."""

    model: str = ""
    unload_ms: float | None = None
    reload_ms: float | None = None
    measured: int = 0


class RouteBuild(Part):
    """One build's rows. ``sleeps`` False: it has no sleep mode, ``note`` says how that was seen."""

    subject: Subject
    released: str | None = Field(default=None, description="day the wheel was packed, ISO 8601")
    sleeps: bool = True
    note: str | None = None
    promise_text: str | None = None
    promise_source: str | None = None
    width: Width = Width()
    seconds: float = 0.0
    interrupted: bool = False
    findings: list[Finding] = Field(default=[])
    rows: list[RouteRow] = Field(default=[])

    def row(self, route: str) -> RouteRow | None:
        return next((row for row in self.rows if row.route == route), None)


class RouteMatrix(Part):
    """The document `verify routes --json` writes."""

    schema_: str = Field(default=ROUTES_SCHEMA, alias="schema")
    tool: str
    date: str = Field(description="day of the measurement, ISO 8601")
    seed: int | None = None
    host: dict[str, Any] = Field(default={})
    options: dict[str, Any] = Field(default={})
    states: list[str] = Field(default=list(STATES))
    builds: list[RouteBuild] = Field(default=[])

    def routes(self) -> list[str]:
        """Every route that some build has, in the order of the first build that names it."""
        seen = {row.route: None for build in self.builds for row in build.rows if not row.absent}
        named = [row.route for build in self.builds for row in build.rows]
        return [route for route in dict.fromkeys(named) if route in seen]

    def cells(self) -> Iterator[tuple[RouteBuild, RouteRow, RouteCell]]:
        for build in self.builds:
            for row in build.rows:
                for cell in row.cells:
                    yield build, row, cell


def meaning(row: RouteRow | None) -> str:
    """What polling this route does to a server of this build: an id of MEANINGS."""
    if row is None:
        return UNKNOWN
    if row.absent:
        return ABSENT
    if any(is_bad(cell) for cell in row.cells):
        return DANGEROUS
    if any(is_silent(cell) for cell in row.cells):
        return UNKNOWN
    asleep, awake = row.cell(ASLEEP), row.cell(AWAKE)
    wakes = asleep.wakes if asleep is not None else None
    resets = awake.resets if awake is not None else None
    if wakes is None or resets is None:
        return UNKNOWN
    return {(False, False): SAFE, (False, True): RESETS, (True, False): WAKES, (True, True): KEEPS_AWAKE}[
        (wakes, resets)
    ]


def is_bad(cell: RouteCell) -> bool:
    """The state was met, and the server died, answered wrongly or left the client waiting."""
    return cell.reached and cell.outcome in BAD


def is_silent(cell: RouteCell) -> bool:
    """The state was met, and there is no answer to judge by: the server exited, say, or hangs awake."""
    return cell.reached and cell.outcome == INCONCLUSIVE


def cell_word(cell: RouteCell) -> str:
    """A cell in one word, for tables and for those who cannot see a picture."""
    if not cell.reached:
        return "not reached"
    if cell.outcome in BAD:
        words = {CRASHED: "crash", STRANDED: "stranded", WRONG_ANSWER: "wrong", SERVER_ERROR: "error"}
        return " ".join(filter(None, (words[cell.outcome], cell.defect)))
    if is_silent(cell):
        return "no answer"
    if cell.state == AWAKE:
        return {True: "resets", False: "no reset", None: "?"}[cell.resets]
    if cell.state in (WAKING, TWO_WAKERS):
        return "answered"
    return {True: "wakes", False: "silent", None: "?"}[cell.wakes]


def matrix_json(matrix: RouteMatrix) -> str:
    """The document with one row a line: small, and a change of one cell is a change of one line."""
    import json

    data = matrix.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    data = {"schema": ROUTES_SCHEMA, **data}
    builds = data.pop("builds", [])
    head = json.dumps(data, sort_keys=False)[:-1]
    return f'{head}, "builds": [\n' + ",\n".join(_build_json(build) for build in builds) + "\n]}\n"


def _build_json(build: dict[str, Any]) -> str:
    import json

    rows = build.pop("rows", [])
    head = json.dumps(build)[:-1]
    lines = ",\n".join(f"  {json.dumps(row, separators=(',', ':'))}" for row in rows)
    return f'{head}, "rows": [\n{lines}\n]}}'


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document; docs/routes.schema.json is this."""
    return RouteMatrix.model_json_schema(by_alias=True)
