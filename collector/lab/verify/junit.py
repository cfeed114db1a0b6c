"""Findings as JUnit XML, the form continuous integration servers read: a failure is a found defect."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import datetime, timezone

from analyzers.contracts.trials import AFFECTED, SOUND, Finding, Trial, TrialRun
from collector.lab.reference.output import printable

# What XML 1.0 may not hold, not even escaped (its production 2, Char), and what would steer a terminal.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Trials listed in the body of a case; a run has up to some hundred, and a reader looks at the first few.
LISTED = 50
TEXT_LENGTH = 2000
DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'  # ElementTree's own names the locale's encoding
INTERRUPTED = "interrupted before all its trials were made: no verdict"


def junit_xml(run: TrialRun) -> str:
    """One test suite per run (method and subject), one test case per finding.

    affected is a failure, inconclusive is skipped: it is no verdict. A run that was interrupted or ended
    early has an error.
    """
    suite = ET.Element("testsuite", _head(run))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(run):
        ET.SubElement(properties, "property", {"name": name, "value": _text(value)})
    for finding in run.findings:
        suite.append(_case(run, finding))
    if (cut := _cut(run)) is not None:
        _add_error(suite, run, *cut)
    root = ET.Element("testsuites", {"name": "llama-blackbox verify"})
    root.append(suite)
    ET.indent(root)
    return DECLARATION + ET.tostring(root, encoding="unicode") + "\n"


def _head(run: TrialRun) -> dict[str, str]:
    said = [finding.conclusion for finding in run.findings]
    errors = int(_cut(run) is not None)
    begun = datetime.fromtimestamp(run.started, timezone.utc)
    return {
        "name": _text(f"verify {run.method}: {run.subject.name}"),
        "tests": str(len(said) + errors),
        "failures": str(said.count(AFFECTED)),
        "errors": str(errors),
        "skipped": str(sum(each not in (AFFECTED, SOUND) for each in said)),
        "time": f"{run.seconds:.3f}",
        "timestamp": begun.strftime("%Y-%m-%dT%H:%M:%S"),
    }


def _properties(run: TrialRun) -> Iterator[tuple[str, str]]:
    subject = run.subject
    known = {
        "build": subject.build,
        "build-id": subject.build_id,
        "version": subject.version,
        "kind": subject.kind,
        "fix": subject.fix,
        "asan": "yes" if subject.asan else None,
        "seed": run.seed,
        "tool": run.tool,
        "catalogue": run.catalogue,
        "interrupted": "yes" if run.interrupted else None,
    }
    yield from ((name, str(value)) for name, value in known.items() if value is not None)


def _case(run: TrialRun, finding: Finding) -> ET.Element:
    own = [trial for trial in run.trials if trial.defect == finding.defect]
    spent = sum(trial.trial_seconds or trial.seconds or 0.0 for trial in own)
    case = ET.Element(
        "testcase",
        {
            "classname": _text(f"verify.{run.method}"),
            "name": _text(f"{finding.defect} on {run.subject.name}"),
            "time": f"{spent:.3f}",
        },
    )
    if finding.conclusion == AFFECTED:
        failure = ET.SubElement(
            case, "failure", {"type": _text(finding.defect), "message": _text(finding.because)}
        )
        failure.text = _text("\n".join(map(_line, own[:LISTED])))
    elif finding.conclusion != SOUND:
        ET.SubElement(case, "skipped", {"message": _text(f"{finding.conclusion}: {finding.because}")})
    return case


def _cut(run: TrialRun) -> tuple[str, str] | None:
    """What kept the run from its end, as type and message; None when nothing did."""
    if run.problem is not None:
        return "ended-early", run.problem
    return ("interrupted", INTERRUPTED) if run.interrupted else None


def _add_error(suite: ET.Element, run: TrialRun, kind: str, message: str) -> None:
    case = ET.SubElement(
        suite, "testcase", {"classname": _text(f"verify.{run.method}"), "name": "the whole run"}
    )
    ET.SubElement(case, "error", {"type": kind, "message": _text(message)})


def _line(trial: Trial) -> str:
    judged = trial.judgement
    verdict = f", {judged.class_} {judged.defect or ''}".rstrip() if judged else ""
    note = f" - {printable(trial.notes[0])}" if trial.notes else ""
    return f"trial {trial.number}: {trial.route}: {trial.outcome}{verdict}{note}"


def _text(value: str) -> str:
    """``value`` as XML can hold it, cut; etree escapes the rest."""
    return _FORBIDDEN.sub("?", value[:TEXT_LENGTH])
