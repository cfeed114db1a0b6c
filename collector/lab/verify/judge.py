"""Hands a trial's crash or hang to triage, as an operator would: bundle and core in, verdict out."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Report
from analyzers.contracts.trials import INCONCLUSIVE, Judgement, Signature, Trial
from analyzers.errors import UserError
from analyzers.triage.run import Options, triage
from collector.lab.demo.record import record
from collector.lab.faults.provoked import CORE_SIGNALS, CRASH, Provoked
from collector.lab.verify.findings import ended_from_outside

VMSTAT = Path("/proc/vmstat")
OOM_COUNTER = "oom_kill "
NAMELESS = "The crash's frames have no names (a stripped server, or no stack): it cannot be attributed."
# Libraries of the system keep their names when the server's are stripped.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|gomp)(?!\w)|ld-|linux-vdso|\[vdso)")


def judge(provoked: Provoked, folder: Path, more: Sequence[Evidence] = ()) -> tuple[Judgement, Signature]:
    """The verdict on what ``provoked`` left behind; its bundle is written into ``folder``.

    ``more`` is what the collector saw from outside, of a stranded request for example.

    Evidence that cannot be read is a verdict of its own, UNDETERMINED: it must not end the run.
    Raises OSError when ``folder`` cannot be written.
    """
    (folder / "bundle").mkdir(parents=True, exist_ok=True)
    inputs = record(provoked, folder / "bundle", more)
    try:
        with ExitStack() as stack:
            report = triage(inputs, Options(fast=True), stack).report
    except UserError as error:
        return Judgement(class_="UNDETERMINED", summary=f"not judged: {error}"), Signature()
    said = judgement_of(report)
    if provoked.outcome == CRASH and said.defect is None and not has_names(report):
        said = said.model_copy(update={"named": False, "summary": f"{said.summary} {NAMELESS}"})
    return said, Signature(bug_key=report.signature.bug_key, site_key=report.signature.site_key)


def has_names(report: Report) -> bool:
    """A frame of the crashed thread is named in the server's own code; what libraries of the system are
    called tells nothing of a defect of its."""
    crashed = [thread for thread in report.threads if thread.crashed]
    frames = [frame for thread in crashed for frame in thread.frames]
    return any(frame.function and not SYSTEM.match(frame.module or "") for frame in frames)


def judgement_of(report: Report) -> Judgement:
    """What a trial keeps of a report."""
    said = report.verdict
    return Judgement(
        class_=said.class_,
        defect=said.defect,
        cause=said.cause,
        phase=said.phase,
        confidence=said.confidence,
        summary=said.summary,
    )


def oom_kills() -> int | None:
    """How many processes the kernel's out-of-memory killer ended since boot; None where it does not say."""
    with suppress(OSError, ValueError):
        for line in VMSTAT.read_text().splitlines():
            if line.startswith(OOM_COUNTER):
                return int(line[len(OOM_COUNTER) :])
    return None


def ended_awake(number: int | None, code: int | None, oom_before: int | None = None) -> str:
    """How a server ended while its awake answers were measured, no sleep being near: said, never counted."""
    if number is None:
        return f"the server ended by itself with status {code}"
    if number in CORE_SIGNALS:
        return f"the awake server crashed ({_name(number)}), no sleep being near: that is another defect"
    return f"the server was ended from outside by {_name(number)}: {_by(number, oom_before)}"


def settled(trial: Trial, oom_before: int | None = None) -> Trial:
    """``trial``, unless its server was ended from outside: then it is inconclusive and says by what.

    ``oom_before``: ``oom_kills()`` before the trial.
    """
    if not ended_from_outside(trial) or trial.signal is None:
        return trial
    note = f"the server was ended from outside by {_name(trial.signal)}: {_by(trial.signal, oom_before)}"
    return trial.model_copy(update={"outcome": INCONCLUSIVE, "reached": False, "notes": [note, *trial.notes]})


def _by(number: int, oom_before: int | None) -> str:
    now = oom_kills()
    if number == signal.SIGKILL and None not in (oom_before, now) and now != oom_before:
        return "the kernel was out of memory"
    return "out of memory, or another process" if number == signal.SIGKILL else "another process"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
