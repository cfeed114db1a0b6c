"""The real command on real inputs: in this process for speed, or as a person would type it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from analyzers.cli.main import main
from analyzers.contracts.report import Report

COMMAND = Path(sys.executable).with_name("llama-blackbox")
# A hang must fail one test, not hold up the gate; the slowest command here, the demo, takes 40 s idle.
PATIENCE = 300
VERDICT, UNDETERMINED = 0, 3


class Said(NamedTuple):
    """The part of a report that a verdict is judged by."""

    class_: str
    defect: str | None
    cause: str
    phase: str
    confidence: str
    handler: str | None = None


@dataclass(frozen=True)
class Answer:
    """Exit status and report of one ``triage --json``."""

    status: int
    report: Report

    @property
    def said(self) -> Said:
        verdict = self.report.verdict
        return Said(
            verdict.class_,
            verdict.defect,
            verdict.cause,
            verdict.phase,
            verdict.confidence,
            verdict.handler,
        )

    @property
    def reasons(self) -> str:
        return "\n".join(self.report.verdict.reasons)

    @property
    def gaps(self) -> str:
        return "\n".join(f"{gap.what}: {gap.why}" for gap in self.report.gaps)

    @property
    def blames_sleep(self) -> bool:
        """True when the verdict names sleep or a wake, whatever the class is called."""
        verdict = self.report.verdict
        return verdict.cause in ("sleep", "wake") or "SLEEP" in verdict.class_ or verdict.defect is not None


def ask(*inputs: Path) -> Answer:
    """``llama-blackbox triage INPUT… --json --fast`` through the dispatcher, in this process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(["triage", *map(str, inputs), "--json", "--fast"])
    return Answer(status, Report.from_json(out.getvalue()))


def command(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The installed console command, its output captured."""
    return subprocess.run(
        [str(COMMAND), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **variables},
    )


def tool(argv: Sequence[str | Path], target: Path) -> Path:
    """What a stack tool prints, as the file that somebody would paste or attach."""
    done = subprocess.run(
        [*map(str, argv)], capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False
    )
    target.write_text(done.stdout)
    return target
