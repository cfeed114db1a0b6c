"""What the lab saw of one fault, as a bundle and a core: the hand-over that a host would give."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import (
    AnswerFact,
    ExitFact,
    ModelFileFact,
    ProbeFact,
    SettingsFact,
    to_evidence,
)
from analyzers.contracts.report import Gap, Host, Model, Process
from analyzers.logs.kernel import parse_kernel_body
from collector.lab.faults.d2_unload_under_reader import telling
from collector.lab.faults.provoked import Provoked
from collector.lab.reference.client import Answer
from collector.lab.reference.output import Line
from collector.lab.reference.spec import ServerSpec
from collector.sources.kernel import to_kernel_evidence

LOG_NAME = "server.log"
# The kernel's show_signal_msg() has a line for these only; that an abort has none is no gap.
WITH_KERNEL_LINE = (signal.SIGSEGV, signal.SIGILL, signal.SIGFPE)
ERROR_LENGTH = 200


def record(
    provoked: Provoked, folder: Path, more: Sequence[Evidence] = (), gaps: Sequence[Gap] = ()
) -> list[Path]:
    """Write the bundle of one fault below ``folder``; returns the inputs for triage, the core last."""
    target = folder / f"{provoked.name.lower()}.bundle"
    server = provoked.server
    parts = ManifestParts(
        host=Host(arch="x86_64"),
        process=Process(pid=server.pid, role=_role(server.spec), model=Model(path=str(server.spec.model))),
        gaps=[*gaps, *_gaps(provoked)],
    )
    lines = "".join(stamped(line) for line in server.output.lines())
    evidence = [*_evidence(provoked), *more]
    write_bundle(target, parts, {LOG_NAME: lines.encode()}, evidence, overwrite=True)
    return [target, *([provoked.core.path] if provoked.core.path else [])]


def _role(spec: ServerSpec) -> str:
    return "hosted" if spec.python else "standalone"


def stamped(line: Line) -> str:
    """One line behind its time of arrival, in the form container logs have."""
    at = datetime.fromtimestamp(line.wall, timezone.utc)
    return f"{at.strftime('%Y-%m-%dT%H:%M:%S.%f')}Z {line.text}\n"


def _gaps(provoked: Provoked) -> Iterator[Gap]:
    ending = provoked.ending
    if provoked.kernel.note and ending is not None and ending.signal in WITH_KERNEL_LINE:
        yield Gap(what="the kernel's line", why=provoked.kernel.note, command="dmesg (as root)")


def _evidence(provoked: Provoked) -> Iterator[Evidence]:
    server = provoked.server
    who = Incarnation(pid=server.pid)
    spec = server.spec
    yield to_evidence(
        SettingsFact(
            sleep_idle_seconds=spec.idle_seconds,
            model=str(spec.model),
            role=_role(server.spec),
            memory_poisoned=spec.poisoned,
        ),
        id="settings",
        source="the lab's own settings",
        text=f"idle limit {spec.idle_seconds} s" + (", freed memory poisoned" if spec.poisoned else ""),
        trust=Trust.SUPERVISOR,
        wall=server.started_wall,
        mono=server.started_mono,
        incarnation=who,
    )
    for item in to_kernel_evidence(provoked.kernel.lines, parse_kernel_body):
        yield item.model_copy(update={"incarnation": who})
    yield from answer_evidence(provoked.answers, who)
    if provoked.health is not None:
        yield _health(provoked.health, who)
    yield from _ending(provoked, who)
    if provoked.model_state != "present":
        yield to_evidence(
            ModelFileFact(path=str(spec.model), state=provoked.model_state),
            id="model-file",
            source="the lab's own look at the file",
            text=f"the model file is {provoked.model_state}",
            trust=Trust.KERNEL,
            incarnation=who,
        )


def answer_evidence(answers: Sequence[Answer], who: Incarnation) -> Iterator[Evidence]:
    """The answers as facts. The first of each route is the awake one, with which the others are compared:
    a status tells nothing by itself, as an awake server refuses a prompt that is too long as well."""
    awake: dict[str, Answer] = {}
    for number, answer in enumerate(answers):
        if answer.status is None:
            continue
        first = awake.setdefault(answer.route, answer)
        expected = None if first is answer else telling(answer) == telling(first)
        error = error_text(answer)
        like = {None: "", True: ", as when awake", False: ", not as when awake"}[expected]
        yield to_evidence(
            AnswerFact(route=answer.route, status=answer.status, error=error, expected=expected),
            id=f"answer-{number}",
            source="the lab's client",
            text=f"{answer.route}: HTTP {answer.status}" + (f" ({error})" if error else "") + like,
            trust=Trust.SUPERVISOR,
            incarnation=who,
        )


def error_text(answer: Answer) -> str | None:
    """The server's own words in an error answer; None where there are none."""
    body = answer.json()
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    if not isinstance(message, str):
        return None
    return "".join(char if char.isprintable() else "?" for char in message[:ERROR_LENGTH])


def _health(answer: Answer, who: Incarnation) -> Evidence:
    return to_evidence(
        ProbeFact(route=answer.route, status=answer.status, seconds=answer.seconds),
        id="health",
        source="the lab's client",
        text=f"GET {answer.route}: " + (f"HTTP {answer.status}" if answer.status else "no answer"),
        trust=Trust.SERVER,
        mono=answer.ended,
        incarnation=who,
    )


def _ending(provoked: Provoked, who: Incarnation) -> Iterator[Evidence]:
    ending = provoked.ending
    if ending is None:
        return
    how = signal.Signals(ending.signal).name if ending.signal else f"status {ending.code}"
    yield to_evidence(
        ExitFact(by="waitpid", signal=ending.signal, code=ending.code),
        id="exit",
        source="waitpid",
        text=f"the process ended by {how}",
        trust=Trust.KERNEL,
        wall=ending.when_wall,
        mono=ending.when_mono,
        incarnation=who,
    )
