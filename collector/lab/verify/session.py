"""Carries a method out: keeps every finished trial at once, survives Ctrl-C, says what it is doing."""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from analyzers.catalogue.loader import catalogue
from analyzers.contracts.trials import Finding, Trial, TrialRun
from analyzers.errors import UserError
from analyzers.version import __version__
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.host import host_facts
from collector.lab.verify.options import Outputs
from collector.lab.verify.subject import Chosen, Say, Wanted, choose


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
    """One run: where it is kept and what it has so far."""

    method: str
    folder: Path
    console: Console
    options: dict[str, Any]
    seed: int
    started: float = field(default_factory=time.time)
    trials: list[Trial] = field(default_factory=list)
    interrupted: bool = False

    def say(self, line: str) -> None:
        self.console.print(Text(f"  {time.time() - self.started:6.1f} s  {line}"), soft_wrap=True)

    def keep(self, trial: Trial) -> None:
        """On disk before the next one starts: a run that is killed keeps what it paid for."""
        self.trials.append(trial)
        with (self.folder / "trials.jsonl").open("a", encoding="utf-8") as file:
            file.write(trial.model_dump_json(by_alias=True, exclude_none=True) + "\n")
        self.say(trial_line(trial))


def trial_line(trial: Trial) -> str:
    """One trial as a person follows it."""
    about = " ".join(filter(None, (trial.defect, trial.point or trial.state, trial.route)))
    judged = trial.judgement
    verdict = f": {judged.class_} {judged.defect or ''} ({judged.confidence})".rstrip() if judged else ""
    notes = f" - {trial.notes[0]}" if trial.notes and not trial.reached else ""
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

    Ctrl-C ends the trials, not the run: what is finished is concluded and written. Raises UserError when the
    subject cannot be used, or an output cannot be written.
    """
    console = Console(highlight=False, file=sys.stderr if outputs.json == "-" else sys.stdout)
    kept, folder = _folder(outputs.folder)
    session = Session(method, folder, console, options or {}, seed)
    chosen = choose(wanted, session.say)
    console.print(Text(f"verify {method}: {chosen.subject.name}", style="bold"), soft_wrap=True)
    try:
        with ReferenceServer(folder / "servers") as lab, _terminated_like_interrupted():
            bench = Bench(lab, chosen, session.say, random.Random(seed))  # noqa: S311 - repeatable, not secret
            _collect(session, carry_out(bench))
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    return _record(session, chosen, conclude)


def _collect(session: Session, trials: Iterator[Trial]) -> None:
    try:
        for trial in trials:
            session.keep(trial)
    except KeyboardInterrupt:
        session.interrupted = True
        session.say(f"interrupted; {len(session.trials)} finished trials are kept")


def _record(session: Session, chosen: Chosen, conclude: Conclude) -> TrialRun:
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
        findings=conclude(session.trials),
        interrupted=session.interrupted,
    )


def _folder(wanted: Path | None) -> tuple[bool, Path]:
    if wanted is None:
        return False, Path(tempfile.mkdtemp(prefix="llama-blackbox-verify-"))
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot be made ({error.strerror})", where=str(wanted), remedy="give another --output folder"
        ) from None
    return True, wanted.resolve()


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: servers down, finished trials kept."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
