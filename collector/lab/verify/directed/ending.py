"""What a try saw at its end: the answer, the strand or the death, judged."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzers.contracts.trials import ANSWERED, CRASHED, INCONCLUSIVE, STRANDED, Judgement, Signature
from analyzers.stacks.mi import MiError
from collector.lab.faults.kernel import KernelLines
from collector.lab.faults.provoked import CRASH, Expected, Provoked
from collector.lab.native.asan import read_report
from collector.lab.reference.client import Answer, Pending, Request
from collector.lab.reference.output import printable
from collector.lab.verify.answers import outcome_of
from collector.lab.verify.directed.debugged import DebuggedServer
from collector.lab.verify.directed.points import Point
from collector.lab.verify.directed.watch import Became, release, watch
from collector.lab.verify.judge import judge

ASAN_REPORT = "ERROR: AddressSanitizer"
ORACLE_LINES = 80  # who read, who freed, who allocated: its three stacks
EXPECTED = {
    "D1": Expected("SEGV-UAF-SLEEP", ("wake",), ("first-request-after-wake",), "D1"),
    "D2": Expected("SEGV-UAF-SLEEP", ("sleep",), ("asleep", "unloading"), "D2"),
    "D3": Expected("HANG-STRANDED", ("sleep",), ("asleep",), "D3"),
}


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
    oracle: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Attempt:
    """One try under way. ``awake`` is the awake answer, ``pending`` the request on trial."""

    point: Point
    request: Request
    server: DebuggedServer
    seen: Seen
    awake: Answer | None = None
    pending: Pending | None = None

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
        answer = this.pending.answer
        this.seen.outcome = outcome_of(answer, this.awake)
        this.seen.status, this.seen.seconds = answer.status, round(answer.seconds, 3)
        if this.seen.outcome != ANSWERED:
            this.note(printable(answer.body.decode("utf-8", "replace"), 200))
    else:
        this.seen.reached = False
        this.note("no answer, and the server neither died nor came to rest")


def _stranded(this: Attempt) -> None:
    """That waking the server brings the answer is what tells a strand from every other hang."""
    assert this.pending is not None  # noqa: S101 - it was sent
    this.seen.outcome, this.seen.status = STRANDED, None
    if release(this.server, this.pending) and this.pending.answer is not None:
        this.note(f"released by a waking call: answered with {this.pending.answer.status}")
        this.seen.seconds = round(this.pending.answer.seconds, 3)
    elif this.server.absorb():
        this.note("the server died when it was woken")
    else:
        this.seen.outcome = INCONCLUSIVE
        this.note("a waking call did not release the request: this is another kind of hang")


def _died(this: Attempt) -> None:
    server, seen = this.server, this.seen
    seen.oracle = _oracle(server)
    ending = server.ending
    seen.signal = ending.signal if ending else None
    if server.fatal is None and not seen.oracle:
        seen.reached = seen.reached and seen.signal is not None
        seen.outcome = CRASHED if seen.signal is not None else INCONCLUSIVE
        this.note(f"the server ended with status {ending.code}" if ending else "gdb ended with the server")
        return
    seen.outcome = CRASHED
    if seen.oracle:
        seen.judgement = _sanitized(this)
    else:
        seen.judgement, seen.signature = _judged(this)


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


def _sanitized(this: Attempt) -> Judgement:
    """What AddressSanitizer's report proves: a handler's use of what the queue's loop had freed. The hold
    tells D1 from D2. Any other report is a fault of its own, and shows neither."""
    report = read_report("\n".join(line.text for line in this.server.output.lines()))
    said = "; ".join(report.lines()) if report else "AddressSanitizer's report cannot be read"
    if report is None or not report.used_after_unload:
        return Judgement(class_="UNDETERMINED", summary=said)
    expected = EXPECTED["D1" if this.point.asleep else "D2"]
    return Judgement(
        class_=expected.class_,
        defect=expected.defect,
        cause=expected.causes[0],
        phase=expected.phases[0] if this.point.asleep else "unknown",
        confidence="proven",
        summary=said,
    )


def _oracle(server: DebuggedServer) -> list[str]:
    """AddressSanitizer's report, from its first line on."""
    texts = [printable(line.text) for line in server.output.lines()]
    first = next((at for at, text in enumerate(texts) if ASAN_REPORT in text), None)
    return [] if first is None else texts[first : first + ORACLE_LINES]
