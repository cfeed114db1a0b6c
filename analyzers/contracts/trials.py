"""What the verifier writes: trials, what they add up to, and the run they belong to, as versioned JSON.

A trial is one request under one condition on one server. Nothing is called a defect, or its absence, that a
trial of the kind did not show: a trial that never reached its window is inconclusive, and so is a run
without any that did.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

TRIALS_SCHEMA = "llama-blackbox/trials/1"

# What became of the request.
ANSWERED = "answered"
WRONG_ANSWER = "wrong-answer"
SERVER_ERROR = "server-error"
STRANDED = "stranded"
CRASHED = "crashed"
REFUSED = "refused"
LEAKED = "leaked"
INCONCLUSIVE = "inconclusive"
OUTCOMES: dict[str, str] = {
    ANSWERED: "answered as the awake server answers it",
    WRONG_ANSWER: "answered, but not as the awake server answers it",
    SERVER_ERROR: "answered with a server error that the awake server does not give",
    STRANDED: "no answer, the server asleep and alive: nothing wakes it",
    CRASHED: "the server died of a signal",
    REFUSED: "refused before the model was touched (503, or 404 where the route does not exist)",
    LEAKED: "answered, but sleep left memory held that it should have freed",
    INCONCLUSIVE: "the trial did not reach its window, or its surroundings failed: it says nothing",
}
# Outcomes that show a defect when the trial reached its window.
BAD = frozenset({WRONG_ANSWER, SERVER_ERROR, STRANDED, CRASHED, LEAKED})

# What the trials of one defect add up to on one subject.
AFFECTED = "affected"
SOUND = "sound"
CONCLUSIONS: dict[str, str] = {
    AFFECTED: "at least one trial that reached the window showed the defect",
    SOUND: "every trial that reached the window was answered or refused, and there were enough of them",
    INCONCLUSIVE: "too few trials reached the window, or what happened is not this defect",
}

# Exit statuses of every `verify`, chosen for `git bisect run`.
EXIT_SOUND = 0
EXIT_DEFECT = 1
EXIT_UNUSABLE = 2
EXIT_INCONCLUSIVE = 125
# Interrupted, whatever was found so far: 128 and above make `git bisect run` stop instead of judge.
EXIT_INTERRUPTED = 130


class Part(BaseModel):
    """Base of every part: immutable, and a newer writer's fields survive a round trip."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)


class Subject(Part):
    """The server under test. ``kind``: hosted (a wheel) | native (a binary) | remote (a running server)."""

    kind: str
    name: str = Field(description="as a person would name it: b11063 (xllamacpp 2026.9.11063)")
    version: str | None = Field(default=None, description="package version, or what --version prints")
    build: int | None = Field(default=None, description="llama.cpp build number")
    build_id: str | None = Field(default=None, description="GNU build-id of the program or library")
    fix: str | None = Field(default=None, description="name of our patch, when one was applied")
    asan: bool = False
    stock: bool = Field(default=False, description="ours and unpatched: what is found speaks for its number")
    marks: dict[str, str] = Field(default={}, description="defect id -> what the binary's names say")


class Signature(Part):
    bug_key: str | None = None
    site_key: str | None = None


class Judgement(Part):
    """The triaged verdict on a trial's crash or hang."""

    class_: str = Field(alias="class")
    defect: str | None = None
    cause: str = "unknown"
    phase: str = "unknown"
    confidence: str = "undetermined"
    summary: str = ""
    named: bool = Field(
        default=True,
        description="False: no frame of the crash has a name, so that it can be attributed to nothing",
    )


class Trial(Part):
    """One request under one condition.

    Times are seconds; ``offset`` is the wanted time from sending to sleep, ``placement_error`` what the sleep
    line was later than wanted.
    """

    number: int
    defect: str | None = Field(default=None, description="the defect this trial was made for")
    route: str = Field(description='method and path, like "POST /completion"')
    point: str | None = Field(default=None, description="directed: the named point a thread was held at")
    state: str | None = Field(default=None, description="routes: the server's state when it was sent")
    outcome: str
    reached: bool = Field(default=True, description="the condition the trial is about was really met")
    status: int | None = Field(default=None, description="HTTP status of the answer, None without one")
    seconds: float | None = Field(default=None, description="from sending to the answer or to giving up")
    trial_seconds: float | None = Field(default=None, description="the whole trial, server start included")
    offset: float | None = None
    placement_error: float | None = None
    signal: int | None = None
    signature: Signature | None = None
    judgement: Judgement | None = None
    oracle: list[str] = Field(default=[], description="what AddressSanitizer said: who read, who freed")
    notes: list[str] = []


class Finding(Part):
    """What the trials of one defect say of the subject."""

    defect: str
    conclusion: str
    shown: int = Field(description="trials that reached the window and showed the defect")
    reached: int = Field(description="trials that reached the window")
    trials: int
    upper_bound: float | None = Field(
        default=None, description="sound: largest rate the clean trials leave possible, at 95 %"
    )
    because: str = ""
    asked: bool = Field(
        default=True, description="the run was about it; False: a trial made for another defect showed it"
    )
    other: int | None = Field(default=None, description="its own trials that ended in another defect")
    placement_error: float | None = Field(
        default=None, description="pinned: median distance of the sleep from its wanted moment, seconds"
    )
    seconds_to_show: float | None = Field(
        default=None, description="of its trials, calibration included, until the first that showed it"
    )


class TrialRun(Part):
    """One run of one method on one subject: the document `verify … --json` writes."""

    schema_: str = Field(default=TRIALS_SCHEMA, alias="schema")
    tool: str
    catalogue: str
    method: str = Field(description="directed | pinned | routes | leak")
    subject: Subject
    date: str = Field(description="day of the run, ISO 8601")
    started: float = Field(description="Unix time")
    seconds: float = 0.0
    seed: int | None = None
    options: dict[str, Any] = {}
    host: dict[str, Any] = {}
    trials: list[Trial] = []
    findings: list[Finding] = []
    interrupted: bool = False
    problem: str | None = Field(
        default=None, description="what ended the run before all its trials were made, in one line"
    )
    notes: list[str] = []


def json_schema() -> dict[str, Any]:
    """JSON Schema of a run's document; docs/trials.schema.json is this."""
    return TrialRun.model_json_schema(by_alias=True)
