"""From one incident's evidence and its finding to the Report."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from analyzers.catalogue.loader import known_defects, load_catalogue
from analyzers.catalogue.pages import DO_NOW
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import (
    Advice,
    ClockOffset,
    Gap,
    Host,
    Incident,
    InputFile,
    Process,
    Report,
    Signature,
    Tool,
    Verdict,
)
from analyzers.signature.keys import sign
from analyzers.triage.loops import with_loop
from analyzers.triage.material import CoreWork
from analyzers.triage.standing import catalogue_gaps, deployment_of, standing_line
from analyzers.triage.threads import thread_views
from analyzers.triage.timeline import CLOCKS, timeline_of
from analyzers.verdict.case import Case, build_case
from analyzers.verdict.decide import decide
from analyzers.verdict.ending import find_ending, hides
from analyzers.verdict.finding import CONFIDENCE_ORDER, Finding
from analyzers.verdict.sleep import tell
from analyzers.version import __version__

ROUTERS_STATUS = "the router reports this very death as status 1, as it does every death by a signal"
BENIGN = ("NO-FAULT", "NOT-A-HANG", "SHUTDOWN-ABORT")
STRANDED, RELEASED_BY = "HANG-STRANDED", "release-stranded"
RELEASE = re.compile(r"^curl .*/slots\b")  # the catalogue's waking call
EXAMPLE_PORT = re.compile(
    r"(?:(?<=127\.0\.0\.1:)|(?<=sport = :))8080\b"
)  # llama-server's default, in the catalogue
WITNESS_LIMIT = 40  # evidence rows in a verdict; the timeline and the threads hold the rest


@dataclass(frozen=True)
class Group:
    """Everything seen of one incident, before it is judged. ``core`` is the one that opened it; ``copies``
    are lines that another text holds as well, of use for its clock alone."""

    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()
    process: Process = field(default_factory=Process)
    core: CoreWork | None = None
    copies: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Judged:
    """One incident with its case, finding and signature."""

    group: Group
    case: Case
    finding: Finding
    signature: Signature
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Table:
    """All incidents: number N is ``judged[N - 1]``. Groups and overview only where there are several."""

    judged: tuple[Judged, ...]
    incidents: tuple[Incident, ...] = ()
    overview: str = ""


def judge(group: Group) -> Judged:
    """Run the rules and name the incident."""
    group = replace(group, evidence=with_loop(group.evidence))
    case = build_case(group.evidence)
    notes: list[str] = []
    finding = decide(case, notes)
    crash = case.crash.stack if case.crash else None
    signature = sign(
        crash, class_=finding.class_, defect=finding.defect, handler=finding.handler, route=_route(case)
    )
    return Judged(group, case, finding, signature, tuple(notes))


def standing(judged: Judged) -> tuple[bool, bool, int]:
    """Sorts the best-founded incident first, and what asks nobody to act behind every fault; equals keep the
    order of the inputs."""
    finding = judged.finding
    open_ = finding.class_ == "UNDETERMINED"
    return open_, finding.class_ in BENIGN, -CONFIDENCE_ORDER.index(finding.confidence)


def report_of(
    first: Judged,
    *,
    inputs: Sequence[InputFile],
    gaps: Sequence[Gap] = (),
    host: Host | None = None,
    redaction: str = "default",
    incidents: Sequence[Incident] = (),
    overview: str = "",
    incident: int = 1,
) -> Report:
    """The report about ``first``, number ``incident`` of the table when there are several."""
    return Report(
        tool=Tool(version=__version__, catalogue=known_defects().version),
        inputs=list(inputs),
        redaction=redaction,
        host=host or Host(),
        incidents=list(incidents),
        overview=overview,
        incident=incident,
        clocks=_clocks(first, [item.name for item in inputs]),
        verdict=_verdict(first),
        signature=first.signature,
        process=process_of(first),
        threads=thread_views(first.case),
        timeline=timeline_of(first.case),
        gaps=_gaps(first, gaps),
    )


def _verdict(judged: Judged) -> Verdict:
    finding = judged.finding
    wanted = list(dict.fromkeys(finding.witnesses))
    by_id = {item.id: item for item in judged.group.evidence}
    return Verdict(
        class_=finding.class_,
        cause=finding.cause,
        defect=finding.defect,
        phase=finding.phase,
        confidence=finding.confidence,
        summary=finding.summary,
        handler=finding.handler,
        advice=_advice(judged),
        evidence=[by_id[id] for id in wanted[:WITNESS_LIMIT] if id in by_id],
        reasons=[reason for reason in (*finding.reasons, *_routers_word(judged.case)) if reason],
    )


def _routers_word(case: Case) -> list[str]:
    """Whoever reads the router's log as well must not take its status for another death."""
    signalled = find_ending(case).signal is not None
    return [ROUTERS_STATUS] if signalled and any(hides(seen.fact) for seen in case.exits) else []


def _advice(judged: Judged) -> list[Advice]:
    """The catalogue's steps with this server's own port, without one that comes too late."""
    steps = [*_steps(judged.finding, judged.case), *_standing(judged)]
    if judged.finding.class_ == STRANDED and _over(judged.case):
        steps = [step for step in steps if not RELEASE.search(step.command or "")]
    port = judged.group.process.port
    if port is None:
        return steps
    return [step.model_copy(update={"command": _with_port(step.command, port)}) for step in steps]


def _with_port(command: str | None, port: int) -> str | None:
    return None if command is None else EXAMPLE_PORT.sub(str(port), command)


def _over(case: Case) -> bool:
    """The stranded request was released, or its server woke or ended since: there is nothing to release."""
    made = any(s.fact.action == RELEASED_BY and s.fact.outcome == "released" for s in case.actions)
    return made or find_ending(case).known or tell(case).phase not in ("asleep", "unknown")


def _standing(judged: Judged) -> list[Advice]:
    line = standing_line(judged.case, judged.group.process.build_id, judged.finding.defect)
    return [Advice(text=line)] if line else []


def _steps(finding: Finding, case: Case) -> list[Advice]:
    if finding.steps:
        return [Advice(text=text, command=command) for text, command in finding.steps]
    defect = known_defects().defect(finding.defect) if finding.defect else None
    if defect is not None:
        deployment = deployment_of(case)
        rows = defect.advice if deployment is None else defect.advice_for(deployment)
        return [Advice(text=step.text, command=step.command) for step in rows]
    suspect = known_defects().defect(finding.suspect) if finding.suspect else None
    if (
        suspect is not None
    ):  # nothing to search for upstream: its own first step helps whether it was that or not
        return [
            Advice(text=f"If it was {suspect.id}: {s.text}", command=s.command) for s in suspect.advice[:2]
        ]
    page = load_catalogue().explain(f"class:{finding.class_}")
    sections = page.sections if page else ()
    # what to collect next time is for the page: what this verdict lacks stands in the report's gaps
    steps = [step for section in sections if section.heading == DO_NOW for step in section.steps]
    return [Advice(text=step.text, command=step.command) for step in steps]


def _gaps(judged: Judged, more: Sequence[Gap]) -> list[Gap]:
    asked = [Gap(what=ask.what, why=ask.why, command=ask.command) for ask in judged.finding.asks]
    foreign = [
        Gap(
            what=f"the trace in evidence {reading.id}",
            why="it shows another fault than the core's own thread, so it was not counted",
        )
        for reading in judged.case.foreign_traces
    ]
    noted = [Gap(what="one rule of the verdict", why=note) for note in judged.notes]
    unique = {
        (gap.what, gap.why): gap
        for gap in (*asked, *judged.group.gaps, *more, *foreign, *noted, *catalogue_gaps())
    }
    return list(unique.values())


def _clocks(judged: Judged, names: Sequence[str]) -> list[ClockOffset]:
    every = (*judged.group.evidence, *judged.group.copies)
    dated = [e for e in every if (e.wall, e.mono, e.elapsed).count(None) < len(CLOCKS)]
    if len(dated) < 2:
        return []
    from analyzers.triage.clocks import clock_offsets  # a core alone has nothing to compare

    return clock_offsets(dated, names)


def process_of(judged: Judged) -> Process:
    """The incident's process: what its own notes say, completed by its log and its supervisor."""
    case, known = judged.case, judged.group.process
    core = case.cores[0].fact if case.cores else None
    # a core's own command line comes as settings too, and tells of the idle limit alone
    settings = next((s.fact for s in case.settings if s.fact.role or s.fact.args or s.fact.model), None)
    number = find_ending(case).signal
    code = next((s.fact.code for s in case.exits if s.fact.code is not None and not hides(s.fact)), None)
    builds = [s.fact.build for s in case.log if s.fact.build] + [
        s.fact.build for s in case.marks if s.fact.build
    ]
    model = next((s.fact.model for s in case.log if s.fact.model), None)
    address = core.fault_address if core else None
    update = {
        "pid": known.pid if known.pid is not None else _first_pid(judged.group.evidence),
        "signal": signal_name(number),
        "code": code,
        "fault_address": f"{address:#x}" if address is not None else "unknown",
        "build": known.build or (builds[-1] if builds else None),
        "args": known.args or (list(settings.args) if settings else []),
        "role": known.role or (settings.role if settings else None),
        "model": known.model
        if known.model.path
        else known.model.model_copy(update={"path": (settings.model if settings else None) or model}),
    }
    return known.model_copy(update=update)


def _first_pid(evidence: Sequence[Evidence]) -> int | None:
    return next((e.incarnation.pid for e in evidence if e.incarnation.pid is not None), None)


def signal_name(number: int | None) -> str | None:
    """SIGSEGV for 11; the bare number for one this system has no name for."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _route(case: Case) -> str | None:
    answered = [seen.fact.route for seen in case.answers]
    return next((route for route in (*answered, *(s.fact.route for s in case.log)) if route), None)
