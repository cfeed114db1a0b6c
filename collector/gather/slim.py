"""A core as evidence: notes, every thread's stack, the queue loop's state, the build. No memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from analyzers.contracts.report import Gap
from analyzers.core.packed import opened
from analyzers.errors import UserError
from analyzers.privacy.redact import Redactor
from analyzers.triage.from_core import core_material
from analyzers.triage.material import Material
from collector.gather.corefiles import apport_core
from collector.gather.haul import CORE_FACT
from collector.gather.tools import quoted

REPORT_SUFFIX = ".crash"


def core_file(kept: Path, folder: Path) -> Path:
    """The core itself: ``kept``, or what an apport report carries, written below ``folder``.

    Raises UserError for a report without one.
    """
    if kept.suffix != REPORT_SUFFIX:
        return kept
    target = folder / f"{kept.stem[:100]}.core"
    try:
        carried = target.exists() or apport_core(kept, target)
    except OSError as error:
        reason = (error.strerror or "error").lower()
        raise UserError(
            f"cannot be read ({reason})", where=str(kept), remedy=f"sudo apport-unpack {quoted(kept)} DIR"
        ) from None
    if not carried:
        raise UserError(
            "the report carries no core", where=str(kept), remedy="apport keeps one where there is room"
        )
    return target


def slim(
    path: Path, redactor: Redactor | None, exe: Path | None = None, symbols: Sequence[Path] = ()
) -> Material:
    """What the quick rungs read in the core. Raises UserError when it is none or may not be read.

    ``exe``: its program, ``symbols``: folders of its other files, where they are not where the core says.
    """
    numbers = count(1)
    with ExitStack() as stack:
        unpacked = stack.enter_context(opened(path))
        return core_material(
            unpacked, "core", exe, lambda: f"{CORE_FACT}{next(numbers)}", redactor, str(path), symbols
        )


def slim_or_gap(
    path: Path, redactor: Redactor | None, exe: Path | None = None, symbols: Sequence[Path] = ()
) -> tuple[Material, list[Gap]]:
    """``slim``, where a core that cannot be read is a gap with the way to it."""
    try:
        return slim(path, redactor, exe, symbols), []
    except UserError as problem:
        command = f"sudo llama-blackbox triage {quoted(path)}"
        return Material(), [Gap(what="the core", why=problem.what, command=command)]
