"""Hands a trial's crash or hang to triage, as an operator would: bundle and core in, verdict out."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from analyzers.contracts.trials import Judgement, Signature
from analyzers.triage.run import Options, triage
from collector.lab.demo.record import record
from collector.lab.faults.provoked import Provoked


def judge(provoked: Provoked, folder: Path) -> tuple[Judgement, Signature]:
    """The verdict on what ``provoked`` left behind; its bundle is written into ``folder``."""
    bundle = record(provoked, folder / "bundle")
    inputs = [bundle, *([provoked.core.path] if provoked.core.path else [])]
    with ExitStack() as stack:
        report = triage(inputs, Options(fast=True), stack).report
    said = report.verdict
    judgement = Judgement(
        class_=said.class_,
        defect=said.defect,
        cause=said.cause,
        phase=said.phase,
        confidence=said.confidence,
        summary=said.summary,
    )
    return judgement, Signature(bug_key=report.signature.bug_key, site_key=report.signature.site_key)
