"""The timeline as a story: moments by kind, spans of sleep and loading, one clock."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from itertools import pairwise

from analyzers.contracts.report import Report, TimelineItem

KINDS = {
    "enter-sleep": "sleep",
    "exit-sleep": "wake",
    "init": "load",
    "loading": "load",
    "loaded": "load",
    "listening": "load",
    "load-failed": "fault",
    "bind-failed": "fault",
    "context-failed": "fault",
    "restart-in-place": "load",
    "task-launched": "request",
    "task-done": "request",
    "task-cancelled": "request",
    "request": "request",
    "answer": "request",
    "probe": "probe",
    "socket": "probe",
    "action": "probe",
    "fault": "fault",
    "crash": "fault",
    "kernel": "fault",
    "core": "fault",
    "abort": "fault",
    "gpu-fault": "fault",
    "oom-kill": "fault",
    "stranded": "fault",
    "hang": "fault",
    "unanswered": "fault",
    "stopping": "stop",
    "cleaning-up": "stop",
}
TRANSITIONS = {"sleep", "wake", "fault"}  # kinds whose order against others decides verdicts
FAILED_STARTS = {"load-failed", "bind-failed", "context-failed"}
LIVING = {"stranded", "hang", "unanswered", "gpu-fault", *FAILED_STARTS}  # faults a process can outlive
OPENS = {"enter-sleep": "asleep", "loading": "loading"}
CLOSES = {
    "asleep": {"exit-sleep", "restart-in-place"},
    "loading": {"loaded", "listening", *FAILED_STARTS},
}
KIND_WORDS = {
    "fault": "fault",
    "sleep": "falls asleep",
    "wake": "wakes",
    "load": "start-up or load",
    "request": "request",
    "probe": "probe",
    "stop": "stop or end",
    "other": "other",
}
BENIGN = {"NO-FAULT", "NOT-A-HANG", "SHUTDOWN-ABORT"}  # classes that ask nobody to act
MICRO, MILLI, HOUR, DAY = 1e-6, 1e-3, 3600.0, 86400.0
LONG_ELAPSED = 100.0  # seconds from which h:mm:ss reads better than a plain count
EARLIEST = datetime(1970, 1, 1, tzinfo=timezone.utc)
CLOCKS = {
    "elapsed": "seconds since the server's logger started",
    "mono": "seconds since boot",
    "wall": "UTC",
}


@dataclass(frozen=True)
class Moment:
    at: float
    kind: str
    item: TimelineItem


@dataclass(frozen=True)
class Span:
    """A state that lasted, in seconds of the story's clock; ``cut`` when the fault or the record ended it."""

    start: float
    end: float
    kind: str  # asleep | loading
    cut: bool = False
    known: bool = True  # False: how long it lasted is not known

    @property
    def text(self) -> str:
        if not self.known:
            return f"{self.kind} until the end"
        return f"{self.kind} {duration(self.end - self.start)}{' until the end' if self.cut else ''}"


@dataclass(frozen=True)
class Story:
    """Moments in time order on ``clock``; ``others`` stand on another clock and cannot be placed."""

    clock: str
    moments: tuple[Moment, ...]
    others: tuple[TimelineItem, ...]

    @property
    def start(self) -> float:
        return self.moments[0].at

    @property
    def end(self) -> float:
        return self.moments[-1].at

    @property
    def fault(self) -> Moment | None:
        return next((moment for moment in self.moments if moment.kind == "fault"), None)

    @property
    def death(self) -> Moment | None:
        """The fault, when it ended the process."""
        return next((moment for moment in self.moments if _ends(moment)), None)

    @property
    def states_known(self) -> bool:
        """False when nothing says whether the server slept: then no stretch may be called awake."""
        return any(moment.kind in {"load", "sleep", "wake"} for moment in self.moments)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        return tuple(_spans(self.moments))


def tell(report: Report) -> Story:
    """The story of a report's timeline, on the clock most of its items use."""
    items = [item for item in report.timeline if math.isfinite(item.at)]
    clocks = Counter(item.clock for item in items)
    clock = clocks.most_common(1)[0][0] if clocks else "elapsed"
    mine = sorted((item for item in items if item.clock == clock), key=lambda item: item.at)
    faults = any(KINDS.get(item.event) == "fault" for item in mine)
    ending = "stop" if faults or report.verdict.class_ in BENIGN else "fault"
    moments = tuple(Moment(item.at, _kind(item.event, ending), item) for item in mine)
    others = [item for item in report.timeline if item.clock != clock or not math.isfinite(item.at)]
    return Story(clock, moments, tuple(others))


def _kind(event: str, ending: str) -> str:
    """Kind of an event; an exit is the fault only when nothing else is and the verdict is not benign."""
    return ending if event == "exit" else KINDS.get(event, "other")


def _spans(moments: Sequence[Moment]) -> list[Span]:
    """Stretches of sleep and loading, never two at once: a lost line must not leave one open for ever."""
    found: list[Span] = []
    state, since = "", 0.0
    for moment in moments:
        event = moment.item.event
        opened = OPENS.get(event, "")
        if state and (opened not in {"", state} or event in CLOSES[state] or _ends(moment)):
            found.append(Span(since, moment.at, state, cut=_ends(moment), known=moment.item.dated))
            state = ""
        if opened and not state:
            state, since = opened, moment.at
    if state and moments[-1].at > since:
        found.append(Span(since, moments[-1].at, state, cut=True))
    return found


def _ends(moment: Moment) -> bool:
    """True when the process was dead after it."""
    return moment.item.event == "exit" or (moment.kind == "fault" and moment.item.event not in LIVING)


def duration(seconds: float) -> str:
    """A length of time in the unit a reader would use."""
    if seconds < MILLI:
        return f"{seconds / MICRO:.0f} µs"
    if seconds < 0.9995:  # what would round up to the next unit is said in it
        return f"{seconds / MILLI:.3g} ms" if seconds < 0.1 else f"{seconds / MILLI:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // 60} min {whole % 60} s"
    if whole < DAY:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def clock_text(at: float, clock: str, digits: int = 3) -> str:
    """A moment on its clock: `1.369 s`, `2:01:57.649`, `2026-12-01 04:00:05.120 UTC` or `boot+189.677 s`.

    ``digits`` after the second: 0, 3 or 6.
    """
    if clock == "wall":
        return wall_text(at, f"%Y-{WALL_PATTERNS[digits]} UTC")
    if clock == "mono":
        return f"boot+{at:.{digits}f} s"
    suffix = "" if clock == "elapsed" else f" ({clock})"
    return f"{short_clock(at, clock, digits)}{suffix}"


def digits_for(moments: Sequence[Moment]) -> int:
    """Digits after the second that a column of moments needs: none where its source counts whole seconds
    (syslog's lines do), else 3, or 6 where a transition and its neighbour share a millisecond."""
    known = [moment for moment in moments if math.isfinite(moment.at)]
    if len(known) > 1 and all(moment.at == math.floor(moment.at) for moment in known):
        return 0
    pairs = [pair for pair in pairwise(known) if TRANSITIONS & {moment.kind for moment in pair}]
    close = [one for one, other in pairs if one.at != other.at and round(one.at, 3) == round(other.at, 3)]
    return 6 if close else 3


WALL_PATTERNS = {0: "%m-%d %H:%M:%S", 3: "%m-%d %H:%M:%S.mmm", 6: "%m-%d %H:%M:%S.%f"}


def short_clock(at: float, clock: str, digits: int = 3) -> str:
    """The same without date and clock's name, for a column of times, with 0, 3 or 6 ``digits``."""
    if clock == "wall":
        return wall_text(at, WALL_PATTERNS[digits])
    if abs(at) < LONG_ELAPSED or clock == "mono":
        return f"{at:.{digits}f} s"
    hours, rest = divmod(at, HOUR)
    minutes, seconds = divmod(rest, 60.0)
    width = digits + 3 if digits else 2
    return f"{int(hours)}:{int(minutes):02d}:{seconds:0{width}.{digits}f}"


def wall_text(at: float, pattern: str) -> str:
    """Unix seconds in UTC, ``mmm`` its milliseconds; a value no calendar holds is shown as it is."""
    try:
        fine = "%f" in pattern
        moment = EARLIEST + (
            timedelta(microseconds=round(at / MICRO)) if fine else timedelta(milliseconds=round(at / MILLI))
        )
        return moment.strftime(pattern.replace("mmm", f"{moment.microsecond // 1000:03d}"))
    except (OverflowError, ValueError):
        return f"{at:g}"
