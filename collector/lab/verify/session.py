"""Carries a method out: keeps every finished trial at once, survives Ctrl-C, says what it is doing."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from analyzers.catalogue.loader import catalogue
from analyzers.contracts.trials import CRASHED, LEAKED, Finding, Trial, TrialRun
from analyzers.errors import UserError
from analyzers.version import __version__
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.findings import unfilled, unfinished
from collector.lab.verify.host import host_facts
from collector.lab.verify.judge import oom_kills, settled
from collector.lab.verify.keep import TRIALS, Kept, dumped, kept
from collector.lab.verify.options import Outputs
from collector.lab.verify.outputs import demand_writable, voice_for
from collector.lab.verify.progress import Progress
from collector.lab.verify.subject import Chosen, Say, Wanted, choose, explained, named

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Bench:
    """What a method works with: a lab that takes every server down, the subject, a source of chance."""

    lab: ReferenceServer
    chosen: Chosen
    say: Say
    chance: random.Random

    @property
    def spec(self) -> ServerSpec:
        return self.chosen.spec


Method = Callable[[Bench], Iterator[Trial]]
Conclude = Callable[[Sequence[Trial]], list[Finding]]


@dataclass
class Session:
    """One run: where it is kept and what it has so far. ``problem`` ended it early."""

    method: str
    kept: Kept
    progress: Progress
    options: dict[str, Any]
    seed: int
    started: float
    trials: list[Trial] = field(default_factory=list)
    interrupted: bool = False
    problem: UserError | None = None
    oom_before: int | None = field(default_factory=oom_kills)

    @property
    def say(self) -> Say:
        return self.progress.say

    def keep(self, trial: Trial) -> None:
        """On disk before the next one starts: a run that is killed keeps what it paid for."""
        trial = settled(trial, self.oom_before)
        self.oom_before = oom_kills()
        self.trials.append(trial)
        self.kept.add(dumped(trial))
        self.say(trial_line(trial))
        self.kept.drop_cores()


def trial_line(trial: Trial) -> str:
    """One trial as a person follows it."""
    about = " ".join(filter(None, (trial.defect, trial.point or trial.state, trial.route)))
    judged = trial.judgement
    said = [judged.class_, judged.defect, f"({judged.confidence})"] if judged else []
    verdict = f": {' '.join(filter(None, said))}" if judged else ""
    telling = not trial.reached or trial.outcome == LEAKED
    notes = f" - {trial.notes[0]}" if trial.notes and telling else ""
    return f"trial {trial.number}: {about}: {trial.outcome}{verdict}{notes}"


def run(
    method: str,
    carry_out: Method,
    conclude: Conclude,
    wanted: Wanted,
    outputs: Outputs,
    *,
    seed: int = 0,
    options: dict[str, Any] | None = None,
) -> TrialRun:
    """All trials of ``carry_out`` on the wanted subject, kept and concluded.

    Ctrl-C, SIGTERM and SIGHUP end the trials, not the run: what is finished is concluded and written, as
    it is when the surroundings fail after the first trial (``problem``). Raises UserError when the subject
    cannot be used or no trial could be finished, KeyboardInterrupt before the first trial began.
    """
    voice = voice_for(outputs)
    started = time.time()
    demand_writable(outputs)
    with ExitStack() as stack:
        finished = stack.enter_context(_stopped_like_interrupted())
        folder = stack.enter_context(kept(outputs.folder))
        progress = stack.enter_context(Progress(voice, started))
        session = Session(method, folder, progress, options or {}, seed, started)
        chosen = choose(wanted, session.say)
        voice.tell(f"verify {method}: {chosen.subject.name}", style="bold")
        with ReferenceServer(folder.servers) as lab:
            bench = Bench(lab, chosen, session.say, random.Random(seed))  # noqa: S311 - repeatable, not secret
            _collect(session, carry_out(bench), chosen)
            finished()
        _say_what_is_kept(session)
        return _record(session, chosen, conclude, lab.allocators)


def _collect(session: Session, trials: Iterator[Trial], chosen: Chosen) -> None:
    try:
        for trial in trials:
            session.keep(trial)
    except KeyboardInterrupt:
        session.interrupted = True
        session.say(f"interrupted; {len(session.trials)} finished trials are kept")
    except (UserError, OSError) as error:
        session.problem = _problem(error, chosen)
        if not session.trials:
            raise session.problem from None
        session.say(f"ended early after {len(session.trials)} finished trials: {session.problem}")


def _problem(error: UserError | OSError, chosen: Chosen) -> UserError:
    if isinstance(error, UserError):
        return named(explained(error, chosen.spec.model), chosen)
    return UserError(
        f"the run cannot go on ({(error.strerror or type(error).__name__).lower()})",
        where=str(error.filename or TRIALS),
        remedy="free some space or set it right, then run it again",
    )


def _say_what_is_kept(session: Session) -> None:
    if session.kept.stays:
        session.say(f"trials, logs and cores are in {session.kept.folder}")
    elif any(trial.outcome == CRASHED for trial in session.trials):
        session.say("logs and cores of the crashes are not kept; run it with --output FOLDER to keep them")


def _record(session: Session, chosen: Chosen, conclude: Conclude, allocators: set[str]) -> TrialRun:
    findings = unfilled(conclude(session.trials), allocators)
    if session.interrupted or session.problem:
        why = "the run was interrupted" if session.interrupted else "the run could not be finished"
        findings = unfinished([_not_begun(each, why) for each in findings], why)
    return TrialRun(
        tool=__version__,
        catalogue=catalogue().version,
        method=session.method,
        subject=chosen.subject,
        date=time.strftime("%Y-%m-%d", time.gmtime(session.started)),
        started=session.started,
        seconds=round(time.time() - session.started, 3),
        seed=session.seed,
        options=session.options,
        host=host_facts(),
        trials=session.trials,
        findings=findings,
        interrupted=session.interrupted,
        problem=str(session.problem) if session.problem else None,
    )


def _not_begun(finding: Finding, why: str) -> Finding:
    """Of a defect whose turn had not come, that is all there is to say."""
    if finding.trials:
        return finding
    return finding.model_copy(update={"because": f"{why} before a trial of it"})


@contextmanager
def _stopped_like_interrupted() -> Iterator[Callable[[], None]]:
    """SIGTERM and SIGHUP end the trials as Ctrl-C does. Gives what is to be called when they are over.

    Only the first counts: after it, and after the trials, the servers are being taken down, in bounded
    time. A signal that is ignored stays so (nohup, a shell's background job).
    """
    over = threading.Event()

    def interrupt(_: int, __: FrameType | None) -> None:
        if not over.is_set():
            over.set()
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield over.set
        return
    heeded = [number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield over.set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
