"""What only a debugger can tell, added to a report whose verdict is already out."""

from __future__ import annotations

from analyzers.contracts.report import Gap, Report, Thread
from analyzers.core.notes import read_core
from analyzers.stacks.frames import fold
from analyzers.stacks.gdb import GdbAnswer
from analyzers.stacks.ladder import slow
from analyzers.triage.material import CoreWork
from analyzers.triage.threads import frame_view


def debugger_part(report: Report, work: CoreWork) -> Report:
    """The report with gdb's view of the thread that died, and a gap where gdb was cut off or disagrees."""
    answer = slow(read_core(work.path), work.exe, loop_tid=work.loop_tid)
    told = (answer.gap, *answer.loosened, _disagreement(report, answer))
    gaps = list(report.gaps) + [gap for gap in told if gap is not None]
    threads = list(report.threads)
    if answer.frames:
        crashed = next((thread for thread in threads if thread.crashed), None)
        view = Thread(
            tid=crashed.tid if crashed else None,
            crashed=True,
            role=crashed.role if crashed else None,
            rung="gdb",
            frames=[frame_view(frame, rung="gdb") for frame in fold(answer.frames)],
        )
        threads.append(view)
    return report.model_copy(update={"threads": threads, "gaps": gaps})


def _disagreement(report: Report, answer: GdbAnswer) -> Gap | None:
    """The queue's flags by type against the ones read by offset: a difference would mean a misread core."""
    by_offset = next((e.data.get("sleeping") for e in report.verdict.evidence if e.kind == "loop"), None)
    by_type = answer.queue.get("sleeping")
    if by_offset is None or by_type is None or bool(by_type) == bool(by_offset):
        return None
    return Gap(
        what="agreement about the queue's sleeping flag",
        why=f"gdb reads sleeping={bool(by_type)} by type, the verdict read {bool(by_offset)} by offset",
        command="treat the verdict as not proven and file the build-id as a bug of llama-blackbox",
    )
