"""Where a run is kept: a folder of the user's that is new to us, or a temporary one that goes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.trials import Part
from analyzers.errors import UserError
from collector.lab.reference.output import printable
from collector.lab.verify.writable import reason

TRIALS = "trials.jsonl"
SERVERS = "servers"
NAME_LENGTH = 60  # characters of what stands in a folder: enough to know it by


@dataclass(frozen=True)
class Kept:
    """``folder`` holds trials.jsonl and the servers' logs and cores; ``stays``: the user asked for it."""

    folder: Path
    stays: bool
    descriptor: int

    @property
    def servers(self) -> Path:
        return self.folder / SERVERS

    def add(self, line: str) -> None:
        """One more line of trials.jsonl. Raises OSError, as when the disk is full."""
        data = line.encode("utf-8", "replace") + b"\n"
        while data:
            data = data[os.write(self.descriptor, data) :]

    def drop_cores(self) -> None:
        """A temporary folder does not collect them: 110 MB each, and a run may crash a hundred servers."""
        if self.stays:
            return
        for core in self.servers.glob("*/core*"):
            with suppress(OSError):
                core.unlink()


@contextmanager
def kept(wanted: Path | None) -> Iterator[Kept]:
    """The folder of one run. Raises UserError when ``wanted`` is no folder, a link, or holds a run."""
    if wanted is None:
        folder = Path(tempfile.mkdtemp(prefix="llama-blackbox-verify-"))
        try:
            yield from _opened(folder, stays=False)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    else:
        yield from _opened(_demanded(wanted), stays=True)


def _opened(folder: Path, stays: bool) -> Iterator[Kept]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(folder / TRIALS, flags, 0o644)
    except OSError as error:
        raise _unusable(folder, f"cannot be written ({reason(error)})") from None
    try:
        yield Kept(folder, stays, descriptor)
    finally:
        os.close(descriptor)


def _demanded(wanted: Path) -> Path:
    """``wanted`` as a real folder with nothing in it. A link could point anywhere by now, and a run among
    files of the user's, or the system's, could not be told from them again."""
    if wanted.is_symlink():
        raise _unusable(wanted, "this is a symbolic link")
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise _unusable(wanted, "this is not a folder") from None
    except OSError as error:
        raise _unusable(wanted, f"cannot be made ({reason(error)})") from None
    for name in (TRIALS, SERVERS):
        if os.path.lexists(wanted / name):
            raise _unusable(wanted, f"there is a run in it already ({name})")
    _demand_empty(wanted)
    return wanted.resolve()


def _demand_empty(wanted: Path) -> None:
    try:
        with os.scandir(wanted) as held:
            first = next(held, None)
    except OSError as error:
        raise _unusable(wanted, f"cannot be read ({reason(error)})") from None
    if first is not None:
        raise _unusable(wanted, f"the folder is not empty ({printable(first.name, NAME_LENGTH)})")


def _unusable(folder: Path, why: str) -> UserError:
    return UserError(why, where=f"--output {folder}", remedy="give another folder, best a new one")


def dumped(part: Part, indent: int | None = None) -> str:
    """JSON of a trial or a run; a lone surrogate from a hostile answer is no reason to lose it."""
    try:
        return part.model_dump_json(by_alias=True, exclude_none=True, indent=indent)
    except ValueError:
        return json.dumps(part.model_dump(by_alias=True, exclude_none=True), indent=indent)
