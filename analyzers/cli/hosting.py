"""Inputs that nobody named: the collector, loaded by its name, picks them from this host."""

from __future__ import annotations

import importlib
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analyzers.cli.output import silence
from analyzers.errors import UserError
from analyzers.privacy.visible import visible

SELECTOR = ("collector.hostpick", "select")
EXTRA = "agent"


@dataclass(frozen=True)
class Selection:
    """What to look for on this host, as the command line names it; everything left out fits."""

    unit: str | None = None
    pid: int | None = None
    since: str | None = None
    boot: str | None = None
    journal: Path | None = None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        return [f"--{name}" for name, value in asdict(self).items() if value is not None]


def selected(selection: Selection, include_private: bool, stack: ExitStack) -> list[Path]:
    """What was found, as inputs that live as long as ``stack``; says on standard error what it is.

    Raises UserError when nothing fits, or when this installation has no collector.
    """
    select = _selector()
    import tempfile

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="llama-blackbox-"))
    inputs, lines = select(Path(folder), **asdict(selection), include_private=include_private)
    for line in lines:
        _say(line)
    return list(inputs)


def _selector() -> Any:
    module, name = SELECTOR
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as missing:
        from analyzers.cli.extras import install_line

        raise UserError(
            f"picking evidence from this host needs {missing.name} (llama-blackbox[{EXTRA}])",
            where="llama-blackbox triage",
            remedy=f"run: {install_line(EXTRA)}; or name the evidence: llama-blackbox triage FILE…",
        ) from None


def _say(line: str) -> None:
    try:
        print(f"on this host: {visible(line)}", file=sys.stderr, flush=True)
    except OSError:  # nobody can be told
        silence(2)
