"""What AddressSanitizer's report proves of a trial, whichever method made it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.contracts.trials import Judgement
from collector.lab.native.asan import LOOP, AsanReport, read_report
from collector.lab.reference.conditions import ENTERING, EXITING
from collector.lab.reference.output import Line, printable

# At a line's start only: the same words inside a line are somebody's text, a prompt's or a model's.
HEADLINE = re.compile(r"==(\d+)==ERROR: AddressSanitizer")
LAST = re.compile(r"==\d+==ABORTING")
ORACLE_LINES = 80  # who read, who freed, who allocated: its three stacks
SHORT_LENGTH = 400
# Cause and phase of each; D2's memory may be read while it is unloaded, after that, or by a late reader.
MEANS = {"D1": ("wake", "first-request-after-wake"), "D2": ("sleep", "unknown")}
SLEPT_AGAIN = "the server slept again before it: memory of before the wake or of after it cannot be told"


@dataclass(frozen=True)
class Word:
    """``judgement``: what the report proves. ``lines``: the report itself, from its headline on."""

    judgement: Judgement
    lines: list[str]

    @property
    def short(self) -> str:
        """Who read and who had freed, in one line."""
        return printable(self.judgement.summary, SHORT_LENGTH)


def reporting(lines: Sequence[Line]) -> bool:
    """A report has begun: the process ends once it is printed, which takes as long as names are looked up."""
    return any(HEADLINE.match(line.text) for line in lines)


def unfinished(lines: Sequence[Line]) -> bool:
    """A report has begun and its last line has not been read yet."""
    return reporting(lines) and not any(LAST.match(line.text) for line in lines)


def word(lines: Sequence[Line], *, asleep: bool, pid: int | None = None) -> Word | None:
    """What the report in a server's log proves; None when the sanitizer said nothing of process ``pid``.

    A handler's use of what the queue's loop had freed is D1 where the request was sent to a sleeping server
    (``asleep``) that did not sleep again before, else D2. Any other report is a fault of its own.
    """
    texts = [line.text for line in lines]
    first = next((at for at, text in enumerate(texts) if _headed(text, pid)), None)
    if first is None:
        return None
    report = read_report("\n".join(texts[first:]))
    shown = [printable(text) for text in texts[first : first + ORACLE_LINES]]
    return Word(_judged(report, texts[:first], asleep), shown)


def _headed(text: str, pid: int | None) -> bool:
    """A report of this very process: a number of another one is a child's, or somebody's text."""
    match = HEADLINE.match(text)
    return match is not None and pid in (None, int(match[1]))


def _judged(report: AsanReport | None, before: Sequence[str], asleep: bool) -> Judgement:
    if report is None:
        return Judgement(class_="UNDETERMINED", summary="AddressSanitizer's report cannot be read")
    said = "; ".join(report.lines())
    if not report.used_after_unload:
        return Judgement(class_="UNDETERMINED", summary=said)
    if asleep and not _stale(report, before):
        return Judgement(class_="UNDETERMINED", summary=f"{said}; {SLEPT_AGAIN}")
    defect = "D1" if asleep else "D2"
    cause, phase = MEANS[defect]
    return Judgement(
        class_="SEGV-UAF-SLEEP",
        defect=defect,
        cause=cause,
        phase=phase,
        confidence="proven",
        summary=said,
    )


def _stale(report: AsanReport, before: Sequence[str]) -> bool:
    """The memory was freed by the sleep that the request ended: the server's last step before the report was
    the wake. Memory that the loop itself had loaded is of after its first sleep."""
    steps = [text for text in before if ENTERING in text or EXITING in text]
    woken = bool(steps) and EXITING in steps[-1]
    return woken and not (_sleeps(steps) == 1 and _reloaded(report))


def _sleeps(steps: Sequence[str]) -> int:
    """How often the server fell asleep; newer builds print two lines each time."""
    entered = [ENTERING in text for text in steps]
    return sum(now and not last for last, now in zip([False, *entered], entered, strict=False))


def _reloaded(report: AsanReport) -> bool:
    owner = report.allocated.context if report.allocated else ""
    return LOOP in owner and "load_model" in owner
