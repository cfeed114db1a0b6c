"""One incident's line of the table: when, where, who told of it, and from which inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import (
    AbortFact,
    CoreFact,
    ExitFact,
    KernelFact,
    LogFact,
    ProbeFact,
    SocketFact,
    StackFact,
    fact_of,
)
from analyzers.contracts.report import Death
from analyzers.contracts.watched import LookFact
from analyzers.signature.likeness import telling_names
from analyzers.triage.build import Judged, process_of
from analyzers.triage.clocks import input_of, mover
from analyzers.triage.dying import deaths_in

CORE_RUNGS = ("notes", "scan", "eu-stack", "stride", "gdb")
# Kind of evidence -> the word for it, in the order in which they are told.
WORDS = (
    "core",
    "self-trace",
    "pasted trace",
    "live stack",
    "kernel",
    "core record",
    "supervisor",
    "router",
    "shell",
    "abort text",
    "log",
    "probe",
    "look",
    "sockets",
)
_PLAIN = {
    CoreFact.KIND: "core",
    KernelFact.KIND: "kernel",
    AbortFact.KIND: "abort text",
    LogFact.KIND: "log",
    ProbeFact.KIND: "probe",
    LookFact.KIND: "look",
    SocketFact.KIND: "sockets",
}
_ENDS = {"router": "router", "shell": "shell", "ollama": "supervisor", "coredump-store": "core record"}


def death_of(item: Judged, number: int, names: Sequence[str]) -> Death:
    """The line of incident ``number``; ``names`` are those of the inputs."""
    finding, process = item.finding, process_of(item)
    evidence = item.group.evidence
    return Death(
        number=number,
        class_=finding.class_,
        defect=finding.defect,
        cause=finding.cause,
        phase=finding.phase,
        confidence=finding.confidence,
        handler=finding.handler,
        top_frame=top_frame(item),
        pid=process.pid,
        build=process.build,
        at=died_at(item),
        inputs=sorted(
            {name for one in (*evidence, *item.group.copies) if (name := input_of(one, names)) is not None}
        ),
        witnesses=witnesses(evidence, item.group.copies),
        bug_key=item.signature.bug_key,
        site_key=item.signature.site_key,
    )


def top_frame(item: Judged) -> str | None:
    """The innermost telling frame of the faulting stack."""
    crash = item.case.crash
    return next(iter(telling_names(crash.stack)), None) if crash is not None else None


def died_at(item: Judged) -> float | None:
    """Unix seconds of the first word about the end, else of the last line of the log."""
    evidence = item.group.evidence
    moved = mover(evidence)
    ends = [at for one in deaths_in(evidence) if (at := moved(one, "wall")) is not None]
    lines = [one.wall for one in evidence if one.wall is not None]
    return min(ends) if ends else max(lines, default=None)


def witnesses(evidence: Sequence[Evidence], copies: Sequence[Evidence] = ()) -> list[str]:
    """The kinds of evidence, each once, in the order of WORDS; ``copies`` are lines told twice."""
    told = set(_words(evidence, {_text_of(item) for item in copies}))
    return [word for word in WORDS if word in told]


def _words(evidence: Sequence[Evidence], logs: set[str]) -> Iterator[str]:
    logs = logs | {_text_of(item) for item in evidence if item.kind in (LogFact.KIND, AbortFact.KIND)}
    for item in evidence:
        end, stack = fact_of(item, ExitFact), fact_of(item, StackFact)
        if end is not None:
            yield from _of_end(end)
        elif stack is not None:
            printed = item.trust is not Trust.CLIENT and _text_of(item) in logs
            yield from _of_stack(stack, printed)
        elif item.kind in _PLAIN:
            yield _PLAIN[item.kind]


def _of_end(end: ExitFact) -> Iterator[str]:
    """An end that a trace implies is that trace's own word, which its stack already stands for."""
    if end.by == "trace":
        return
    recorded = end.result == "core-dump" and end.name is not None
    yield "core record" if recorded else _ENDS.get(end.by, "supervisor")


def _text_of(item: Evidence) -> str:
    return item.source.partition(":")[0]


def _of_stack(stack: StackFact, printed: bool) -> Iterator[str]:
    """``printed``: it stands in the server's own log, whose debugger leaves no other sign in the frames."""
    if stack.live:
        yield "live stack"
    elif stack.rung == "self-trace" or (printed and stack.rung not in CORE_RUNGS):
        yield "self-trace"
    elif stack.rung not in CORE_RUNGS:
        yield "pasted trace"
