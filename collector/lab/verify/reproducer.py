"""Writes the stand-alone reproducer: one script of the standard library alone, and the model beside it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from analyzers.contracts.trials import AFFECTED, TrialRun
from analyzers.errors import UserError
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.output import printable
from collector.lab.verify import reproduce
from collector.lab.verify.writable import demand_room, reason, unwritable

REMEDY = "give a new folder to --reproducer"
SCRIPT, MODEL = "reproduce.py", reproduce.MODEL
SOURCE = Path(__file__).with_name(SCRIPT)
# The lines of the script that are filled in, as they stand in it.
DEFECTS_LINE = 'DEFECTS = ("D1", "D2", "D3")\n'
FOUND_LINE = 'FOUND_ON = ""\n'


def write_reproducer(run: TrialRun, folder: Path) -> list[Path]:
    """Script and model in ``folder``, for the defects that ``run`` showed; returns their paths.

    The model is always the generated one: a user's own may be large or private. Raises UserError when the
    run showed none of the script's defects, a file is there already, or it cannot be written.
    """
    defects = shown_defects(run)
    if not defects:
        raise UserError(
            f"there is nothing to reproduce: this run showed none of {', '.join(reproduce.DEFECTS)}",
            where=f"--reproducer {folder}",
            remedy="leave it out, or test an affected build",
        )
    text = script_for(defects, f"{run.subject.name}, {run.method}, {run.date}")
    model = cached_model()
    return [
        _create(folder / SCRIPT, lambda file: file.write(text.encode())),
        _create(folder / MODEL, lambda file: _copy(model, file)),
    ]


def demand_new(folder: Path) -> None:
    """Raises UserError when the reproducer could not be written into ``folder``."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise unwritable(folder, "this is not a folder", REMEDY)
    for name in (SCRIPT, MODEL):
        if os.path.lexists(folder / name):
            raise unwritable(folder / name, "there is something already", REMEDY)
    demand_room(folder, REMEDY)


def shown_defects(run: TrialRun) -> list[str]:
    """The defects among the script's that ``run`` found, in the script's order."""
    found = {finding.defect for finding in run.findings if finding.conclusion == AFFECTED}
    return [defect for defect in reproduce.DEFECTS if defect in found]


def script_for(defects: list[str], found_on: str) -> str:
    """The script for ``defects``; ``found_on`` is a text it prints, whatever is in it."""
    text = SOURCE.read_text(encoding="utf-8")
    filled = {
        DEFECTS_LINE: f"DEFECTS = {tuple(defects)!r}\n",
        FOUND_LINE: f"FOUND_ON = {found_on_of(found_on)}\n",
    }
    for line, instead in filled.items():
        before, found, after = text.partition(line)
        assert found  # noqa: S101 - a test reads the script for these lines
        text = before + instead + after
    return text


def found_on_of(text: str) -> str:
    """A Python literal: hostile version texts must stay text."""
    return ascii(printable(text))


def _copy(model: Path, file: BinaryIO) -> None:
    with model.open("rb") as source:
        shutil.copyfileobj(source, file)


def _create(path: Path, fill: Callable[[BinaryIO], object]) -> Path:
    """A new file: what is there is never overwritten, and no link is followed. No half file stays."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
    except FileExistsError:
        raise unwritable(path, "there is something already", REMEDY) from None
    except OSError as error:
        raise unwritable(path, f"cannot be written ({reason(error)})", REMEDY) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            fill(file)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise unwritable(path, f"cannot be written ({reason(error)})", REMEDY) from None
    return path
