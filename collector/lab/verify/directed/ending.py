"""What a try saw at its end: the answer, the strand or the death, judged."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from analyzers.contracts.trials import ANSWERED, CRASHED, INCONCLUSIVE, STRANDED, Judgement, Signature
from analyzers.stacks.mi import MiError
from collector.lab.faults.kernel import KernelLines
from collector.lab.faults.provoked import CRASH, Expected, Provoked
from collector.lab.reference.client import Answer, Pending, Request
from collector.lab.reference.output import printable
from collector.lab.verify.answers import NOT_COMPARABLE, differ, outcome_of
from collector.lab.verify.directed.debugged import DebuggedServer
from collector.lab.verify.directed.points import Point
from collector.lab.verify.directed.watch import Became, release, watch
from collector.lab.verify.judge import judge, oom_kills
from collector.lab.verify.oracle import Word, unfinished, word

EXPECTED = {
    "D1": Expected("SEGV-UAF-SLEEP", ("wake",), ("first-request-after-wake",), "D1"),
    "D2": Expected("SEGV-UAF-SLEEP", ("sleep",), ("asleep", "unloading"), "D2"),
    "D3": Expected("HANG-STRANDED", ("sleep",), ("asleep",), "D3"),
}
# What was written before the end is read within milliseconds.
REPORT_DEADLINE = 10.0
POLL = 0.02


@dataclass
class Seen:
    """What one try saw; the fields of a Trial that it knows."""

    outcome: str = INCONCLUSIVE
    reached: bool = False
    status: int | None = None
    seconds: float | None = None
    signal: int | None = None
    judgement: Judgement | None = None
    signature: Signature | None = None
    oracle: Word | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class Attempt:
    """One try under way. ``awake`` and ``again`` are awake answers, ``pending`` the request on trial."""

    point: Point
    request: Request
    server: DebuggedServer
    seen: Seen
    awake: Answer | None = None
    again: Answer | None = None
    pending: Pending | None = None
    oom_before: int | None = field(default_factory=oom_kills)

    def note(self, text: str) -> None:
        self.seen.notes.append(text)


def conclude(this: Attempt) -> None:
    """Watch what becomes of the request, and write it into ``seen``."""
    assert this.pending is not None  # noqa: S101 - it was sent
    became = watch(this.server, this.pending)
    if became is Became.DIED:
        _died(this)
    elif became is Became.STRANDED:
        _stranded(this)
    elif became is Became.ANSWERED and this.pending.answer is not None:
        _answered(this, this.pending.answer)
    else:
        this.seen.reached = False
        this.note("no answer, and the server neither died nor came to rest")


def _answered(this: Attempt, answer: Answer) -> None:
    this.seen.outcome = outcome_of(answer, this.awake, this.again)
    this.seen.status, this.seen.seconds = answer.status, round(answer.seconds, 3)
    if this.seen.outcome == INCONCLUSIVE and differ(this.awake, this.again):
        this.seen.notes.insert(0, NOT_COMPARABLE)  # what the finding quotes is a trial's first note
    if this.seen.outcome != ANSWERED:
        this.note(printable(answer.body.decode("utf-8", "replace"), 200))


def _stranded(this: Attempt) -> None:
    """That waking the server brings the answer is what tells a strand from every other hang."""
    assert this.pending is not None  # noqa: S101 - it was sent
    this.seen.outcome, this.seen.status = STRANDED, None
    if release(this.server, this.pending) and this.pending.answer is not None:
        this.note(f"released by a waking call: answered with {this.pending.answer.status}")
        this.seen.seconds = round(this.pending.answer.seconds, 3)
    elif this.server.absorb():
        this.note("the server died when it was woken: no strand, which waking ends")
        _died(this)
    else:
        this.seen.outcome = INCONCLUSIVE
        this.note("a waking call did not release the request: this is another kind of hang")


def _died(this: Attempt) -> None:
    server, seen = this.server, this.seen
    _read_on(server)
    seen.oracle = word(server.output.lines(), asleep=this.point.asleep, pid=server.pid)
    ending = server.ending
    seen.signal = ending.signal if ending else None
    if server.fatal is None and seen.oracle is None:
        seen.reached = seen.reached and seen.signal is not None
        seen.outcome = CRASHED if seen.signal is not None else INCONCLUSIVE
        this.note(f"the server ended with status {ending.code}" if ending else "gdb ended with the server")
        return
    seen.outcome = CRASHED
    if seen.oracle is not None:
        seen.judgement = seen.oracle.judgement
    else:
        seen.judgement, seen.signature = _judged(this)


def _read_on(server: DebuggedServer) -> None:
    """gdb tells of the end on another pipe than the report comes on: its rest may still have to be read."""
    end = time.monotonic() + REPORT_DEADLINE
    while unfinished(server.output.lines()) and time.monotonic() < end:
        server.gdb.wait(POLL)


def _judged(this: Attempt) -> tuple[Judgement | None, Signature | None]:
    """The triage of the core that gdb saves; without one, of the rest, and it is said."""
    server = this.server
    assert server.fatal is not None  # noqa: S101 - the caller knows
    try:
        server.save_core(server.fatal[0])
    except MiError as error:
        this.note(f"gdb saved no core: {printable(error.reason, 120)}")
    provoked = Provoked(
        this.point.defect,
        EXPECTED[this.point.defect],
        True,
        CRASH,
        server,
        server.core(),
        KernelLines(note="the kernel writes no line for a debugged process"),
        tuple(each for each in (this.awake,) if each is not None),
        server.ending,
    )
    try:
        return judge(provoked, server.folder)
    except OSError as error:
        return Judgement(class_="UNDETERMINED", summary=f"not judged: {error.strerror}"), None
