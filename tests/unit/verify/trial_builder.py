"""Trials and runs as a method would hand them over, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from analyzers.contracts.trials import ANSWERED, Finding, Judgement, Subject, Trial, TrialRun


def made(outcome: str = ANSWERED, defect: str | None = "D2", **changes: Any) -> Trial:
    number = changes.pop("number", 1)
    return Trial(number=number, defect=defect, route="POST /tokenize", outcome=outcome, **changes)


def judged(defect: str | None, confidence: str = "strong", class_: str = "SEGV-UAF-SLEEP") -> Judgement:
    return Judgement(class_=class_, defect=defect, confidence=confidence)


def a_run(*findings: Finding, **changes: Any) -> TrialRun:
    told: dict[str, Any] = {
        "tool": "0",
        "catalogue": "1",
        "method": "pinned",
        "subject": Subject(kind="native", name="b12345 (llama-server)", build=12345, build_id="ab" * 20),
        "date": "2026-12-02",
        "started": 1796180000.0,
        "seconds": 3.25,
        "seed": 7,
        "findings": list(findings),
    }
    return TrialRun(**{**told, **changes})


def finding(defect: str = "D2", conclusion: str = "affected", **changes: Any) -> Finding:
    told: dict[str, Any] = {"shown": 1, "reached": 2, "trials": 3, "because": "1 of 2 showed it"}
    return Finding(defect=defect, conclusion=conclusion, **{**told, **changes})
