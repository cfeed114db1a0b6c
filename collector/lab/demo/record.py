"""What the lab saw of one fault, as a bundle and a core: the hand-over that a host would give."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import AnswerFact, ExitFact, ModelFileFact, SettingsFact, to_evidence
from analyzers.contracts.report import Gap, Host, Model, Process
from analyzers.logs.kernel import parse_kernel_body
from collector.lab.faults.provoked import Provoked
from collector.lab.reference.output import Line
from collector.sources.kernel import KernelLine, to_kernel_evidence

LOG_NAME = "server.log"


def record(
    provoked: Provoked, folder: Path, more: Sequence[Evidence] = (), gaps: Sequence[Gap] = ()
) -> list[Path]:
    """Write the bundle of one fault below ``folder``; returns the inputs for triage, the core last."""
    target = folder / f"{provoked.name.lower()}.bundle"
    server = provoked.server
    parts = ManifestParts(
        host=Host(arch="x86_64"),
        process=Process(pid=server.pid, role="hosted", model=Model(path=str(server.spec.model))),
        gaps=[*gaps, *_gaps(provoked)],
    )
    lines = "".join(stamped(line) for line in server.output.lines())
    evidence = [*_evidence(provoked), *more]
    write_bundle(target, parts, {LOG_NAME: lines.encode()}, evidence, overwrite=True)
    return [target, *([provoked.core.path] if provoked.core.path else [])]


def stamped(line: Line) -> str:
    """One line behind its time of arrival, in the form container logs have."""
    at = datetime.fromtimestamp(line.wall, timezone.utc)
    return f"{at.strftime('%Y-%m-%dT%H:%M:%S.%f')}Z {line.text}\n"


def _gaps(provoked: Provoked) -> Iterator[Gap]:
    if provoked.kernel.note:
        yield Gap(what="the kernel's line", why=provoked.kernel.note, command="dmesg (as root)")


def _evidence(provoked: Provoked) -> Iterator[Evidence]:
    server = provoked.server
    who = Incarnation(pid=server.pid)
    spec = server.spec
    yield to_evidence(
        SettingsFact(
            sleep_idle_seconds=spec.idle_seconds,
            model=str(spec.model),
            role="hosted",
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
    for item in to_kernel_evidence(_lines(provoked), parse_kernel_body):
        yield item.model_copy(update={"incarnation": who})
    yield from _answers(provoked, who)
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


def _lines(provoked: Provoked) -> tuple[KernelLine, ...]:
    return tuple(KernelLine(line.mono, line.text) for line in provoked.kernel.lines)


def _answers(provoked: Provoked, who: Incarnation) -> Iterator[Evidence]:
    for number, answer in enumerate(provoked.answers):
        if answer.status is None:
            continue
        yield to_evidence(
            AnswerFact(status=answer.status, error=answer.error, expected=answer.status == 200),
            id=f"answer-{number}",
            source="the lab's client",
            text=f"HTTP {answer.status}" + (f": {answer.error}" if answer.error else ""),
            trust=Trust.SUPERVISOR,
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
