"""Triage's word on what a pinned trial ended in, from the same evidence that an operator would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.trials import STRANDED, Judgement, Signature, Trial
from collector.lab.faults.d3_stranded import EXPECTED as STRANDED_EXPECTED
from collector.lab.faults.kernel import KernelLines
from collector.lab.faults.provoked import CRASH, ERROR, HANG, WRONG, Expected, Provoked, closed
from collector.lab.reference.client import Answer
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.server import RunningServer
from collector.lab.verify.judge import judge
from collector.lab.verify.oracle import word
from collector.lab.verify.pinned.shapes import Shape

LIVES = CoreSearch(None, "the server lives")
# What triage is asked about is not known beforehand; nothing here reads these fields.
OPEN = Expected("UNDETERMINED", ("unknown",), ("unknown",))
# A core of a hosted server is 100 MB: twenty crashes must not fill the disk.
CORES_KEPT = 3
Verdict = tuple[Judgement, Signature | None]


def of_crash(server: RunningServer, shape: Shape, answer: Answer | None, folder: Path) -> Verdict:
    """Takes what is left of the server down; of many cores only the first few are kept once they are read.

    Where AddressSanitizer reported, the report is the better witness: the core shows its abort.
    """
    answers = () if answer is None or answer.status is None else (answer,)
    provoked = closed(shape.defect, OPEN, server, CRASH, happened=True, answers=answers)
    found = word(server.output.lines(), asleep=shape.asleep, pid=server.pid)
    said = judge(provoked, folder) if found is None else (found.judgement, None)
    _forget_core(provoked.core.path, server.folder)
    return said


def crashed(trial: Trial, server: RunningServer, shape: Shape, answer: Answer | None, folder: Path) -> Trial:
    """``trial`` with the verdict on its crash, and with the sanitizer's report where there is one."""
    judgement, signature = of_crash(server, shape, answer, folder)
    found = word(server.output.lines(), asleep=shape.asleep, pid=server.pid)
    said: dict[str, object] = {"judgement": judgement, "signature": signature}
    if found is not None:
        said |= {"oracle": found.lines, "notes": [found.short, *trial.notes]}
    return trial.model_copy(update=said)


def of_life(
    server: RunningServer,
    shape: Shape,
    outcome: str,
    answers: Sequence[Answer],
    more: Sequence[Evidence],
    folder: Path,
) -> Verdict:
    """A hang, an error or a wrong answer of a server that lives on. ``answers``: the awake one first."""
    kind = HANG if outcome == STRANDED else ERROR if answers[-1].status != answers[0].status else WRONG
    expected = STRANDED_EXPECTED if outcome == STRANDED else OPEN
    health = None if outcome == STRANDED else server.get("/health")
    provoked = Provoked(
        shape.defect, expected, True, kind, server, LIVES, KernelLines(), tuple(answers), health=health
    )
    return judge(provoked, folder, more)


def _forget_core(core: Path | None, folder: Path) -> None:
    """Keeps the first few; only one that stands in the server's own folder is ever removed."""
    if core is None or core.parent != folder or core.is_symlink():
        return
    if len(list(folder.parent.glob(f"*/{core.name.split('.')[0]}*"))) > CORES_KEPT:
        core.unlink(missing_ok=True)
