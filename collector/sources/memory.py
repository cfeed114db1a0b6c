"""What a server's process holds in memory at one point of its sleep cycle, as the kernel counts it.

Taken while the server sleeps, figures of several cycles compare; anything else only shows the work in
progress. Device memory is the business of whoever reads the driver; the fact is the same.
"""

from __future__ import annotations

import time
from pathlib import PurePosixPath

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import to_evidence
from analyzers.contracts.watched import MemoryFact
from collector.sources.procfs import GoneError, Process

MODEL_SUFFIX = ".gguf"
MAX_FILES = 16  # a model is split into a few parts, and a server has three models at most
MIB, KIB = 1 << 20, 1024


def memory(pid: int, *, phase: str, cycle: int | None = None) -> Evidence | None:
    """Evidence of resident memory and of the model files that are mapped; None when the process is gone.

    ``phase`` awake | asleep, as the caller knows it (/props); ``cycle`` how often it has slept. Only names of
    files are kept, never their folders.
    """
    try:
        with Process(pid) as process:
            resident = _resident(process.read("smaps_rollup"))
            held = _models(process.read("maps"))
            incarnation = process.incarnation()
    except (GoneError, PermissionError):
        return None
    fact = MemoryFact(where="host", phase=phase, cycle=cycle, bytes=resident, held_model_files=held)
    mono = time.monotonic()
    return to_evidence(
        fact,
        id=f"memory-{pid}-{int(mono * 1000)}",
        source=f"/proc/{pid}/smaps_rollup",
        text=_reading(fact),
        trust=Trust.KERNEL,
        wall=time.time(),
        mono=mono,
        incarnation=incarnation,
    )


def _resident(text: bytes) -> int | None:
    rows = (line.split() for line in text.splitlines())
    found = [int(row[1]) * KIB for row in rows if len(row) == 3 and row[0] == b"Rss:" and row[1].isdigit()]
    return found[0] if found else None


def _models(maps: bytes) -> tuple[str, ...]:
    lines = maps.decode("utf-8", "replace").splitlines()
    paths = (
        line.split(None, 5)[5].removesuffix(" (deleted)")
        for line in lines
        if line.count(" ") >= 5 and "/" in line
    )
    names = {PurePosixPath(path).name for path in paths if path.endswith(MODEL_SUFFIX)}
    return tuple(sorted("".join(c if c.isprintable() else "?" for c in name) for name in names)[:MAX_FILES])


def _reading(fact: MemoryFact) -> str:
    held = f"; still maps {', '.join(fact.held_model_files)}" if fact.held_model_files else ""
    size = "unknown" if fact.bytes is None else f"{fact.bytes / MIB:.1f} MiB"
    which = "" if fact.cycle is None else f", sleep {fact.cycle}"
    return f"{fact.phase}{which}: {size} resident{held}"
