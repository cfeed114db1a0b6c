"""The sentences of a report, the same in every rendering."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.registry import CAUSES, CLASSES, CONFIDENCES, PHASES, REPORT_SCHEMA
from analyzers.contracts.report import Report, Verdict
from analyzers.render import deaths
from analyzers.render.moments import BENIGN, clock_text
from analyzers.render.safe import clean

CONFIDENCE_WORDS = {
    "proven": "proven",
    "strong": "strong evidence",
    "weak": "weak evidence",
    "undetermined": "undetermined",
}
CONFIDENCE_STEPS = {"undetermined": 0, "weak": 1, "strong": 2, "proven": 3}
MAX_STEPS = max(CONFIDENCE_STEPS.values())
TRUST_WORDS = {
    "kernel-set": ("kernel", "written by the kernel or read in the dead process"),
    "supervisor-set": ("supervisor", "written by systemd, docker or the journal"),
    "server-printed": ("server", "printed by the server"),
    "client-controllable": ("client", "a client could have forged it"),
}
MAX_EXTRAS = 40  # fields of a newer writer that are listed; the JSON holds them all
EXTRA_WIDTH = 200


def tone(verdict: Verdict) -> str:
    """ "ok", "open" (not decided) or "fault": what the headline looks like. Never the only carrier."""
    if verdict.class_ in BENIGN:
        return "ok"
    return "open" if verdict.class_ == "UNDETERMINED" else "fault"


def tone_word(verdict: Verdict) -> str:
    sure = verdict.confidence not in {"weak", "undetermined"}
    fault = "FAULT FOUND" if sure else "FAULT LIKELY"
    return {"ok": "NO ACTION NEEDED", "open": "NOT DECIDED", "fault": fault}[tone(verdict)]


def headline(verdict: Verdict) -> str:
    """One sentence: what happened, class, defect, confidence in words."""
    meaning = CLASSES.get(verdict.class_, "a class this version does not know")
    parts = [verdict.class_]
    if verdict.defect:
        parts.append(f"defect {verdict.defect}")
    if verdict.confidence.lower() != verdict.class_.lower():
        parts.append(confidence_word(verdict))
    sentence = f"{meaning}: {', '.join(parts)}."
    return sentence[0].upper() + sentence[1:]


def confidence_word(verdict: Verdict) -> str:
    return CONFIDENCE_WORDS.get(verdict.confidence, verdict.confidence)


def confidence_meaning(verdict: Verdict) -> str:
    return CONFIDENCES.get(verdict.confidence, "a confidence this version does not know")


def particulars(report: Report) -> list[tuple[str, str, str]]:
    """(label, value, meaning) rows that say where the verdict stands; empty ones left out."""
    verdict, process = report.verdict, report.process
    fault = f"{process.signal or ''}{f', address {process.fault_address}' if process.signal else ''}"
    rows = [
        ("Confidence", confidence_word(verdict), confidence_meaning(verdict)),
        ("Cause", verdict.cause, CAUSES.get(verdict.cause, "")),
        ("Phase", verdict.phase, PHASES.get(verdict.phase, "")),
        ("Handler", verdict.handler or "", ""),
        ("Ended by", fault, ""),
        ("Lineage", lineage(report), ""),
        ("Build", process.build or "", ""),
    ]
    quiet = {"Cause", "Phase"} if tone(verdict) == "ok" else set()
    return [row for row in rows if row[1] and not (row[0] in quiet and row[1] == "unknown")]


def lineage(report: Report) -> str:
    """One line: which model's child of which router; empty for a server that stands alone."""
    process, parent = report.process, report.process.parent
    if parent is None:
        return "a router" if process.role == "router" else ""
    name = f"child {process.model.name}" if process.model.name else "a child"
    own = _listed((("PID", process.pid), ("port", process.port)))
    since = f", started {parent.start_time:.2f} s after boot" if parent.start_time is not None else ""
    router = _listed((("PID", parent.pid), ("port", parent.port), ("its thread", parent.tid)))
    return f"{name}{own} of the router{router}{since}"


def _listed(pairs: Sequence[tuple[str, int | None]]) -> str:
    told = ", ".join(f"{label} {value}" for label, value in pairs if value is not None)
    return f" ({told})" if told else ""


def process_rows(report: Report) -> list[tuple[str, str]]:
    """(label, value) rows about the process and its host."""
    process, host = report.process, report.host
    model = process.model
    size = f" ({grouped(model.size)} bytes)" if model.size is not None else ""
    rows = [
        ("Process", f"PID {process.pid}" if process.pid is not None else None),
        ("Role", process.role),
        ("Executable", process.exe),
        ("Build", process.build),
        ("Build-id", process.build_id),
        ("Model", f"{model.path}{size}" if model.path else None),
        ("Arguments", shlex.join(process.args) or None),
        ("Exit code", process.code),
        ("Started", f"{process.start_time:.2f} s after boot" if process.start_time is not None else None),
        ("Boot", process.boot_id),
        ("Host", ", ".join(part for part in (host.arch, host.libc, host.kernel, host.gpu) if part) or None),
    ]
    return [(label, str(value)) for label, value in rows if value is not None]


def trust_word(value: str | None) -> str:
    """Short word of a trust level; an unknown one is shown as it is."""
    return TRUST_WORDS.get(value or "", (value or "unknown", ""))[0]


def evidence_time(evidence: Evidence) -> str:
    """The best-known time of a fact, with its clock, or an empty string."""
    for clock in ("elapsed", "mono", "wall"):
        at = getattr(evidence, clock)
        if at is not None:
            return clock_text(at, clock)
    return ""


def reproduce(report: Report) -> str:
    """The command that gives this verdict again from the same inputs."""
    names = shlex.join(clean(item.name) for item in report.inputs) or "INPUT"
    which = f" --incident {report.incident}" if deaths.several(report) else ""
    return f"llama-blackbox triage {names}{which}"


def newer_schema(report: Report) -> str | None:
    """A note when the report was written by another major version."""
    if report.schema_ == REPORT_SCHEMA:
        return None
    return f"This report says {report.schema_}; this version reads {REPORT_SCHEMA}. Parts may be missing."


def grouped(number: int) -> str:
    return f"{number:,}"


def extras(report: Report) -> list[tuple[str, str]]:
    """(path, value) of fields this version does not know, so that a newer writer's words are not lost."""
    found: list[tuple[str, str]] = []
    for path, value in _extras(report, ""):
        if len(found) == MAX_EXTRAS:
            return [*found, ("…", "more in the JSON")]
        found.append((path, value))
    return found


def _extras(part: BaseModel, path: str) -> Iterator[tuple[str, str]]:
    for name, value in (part.model_extra or {}).items():
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        yield f"{path}{name}", text[:EXTRA_WIDTH]
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            yield from _extras(value, f"{path}{name.rstrip('_')}.")
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from _extras(item, f"{path}{name}[{index}].")
