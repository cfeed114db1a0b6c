"""Runs the real command on bad input, and says what "handled well" means."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzers.cli.main import main

# A hang must fail one test, not the whole run; the slowest of these takes a few seconds on two busy cores.
PATIENCE = 60
VERDICT, UNUSABLE, UNDECIDED = 0, 2, 3
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class HungError(BaseException):
    """Not an Exception, so that the command cannot swallow it."""


@dataclass(frozen=True)
class Outcome:
    """What one run of the command left: its status and what it printed."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """The report of a ``--json`` run."""
        return json.loads(self.out)

    @property
    def gaps(self) -> str:
        """The gaps of a ``--json`` run, one a line."""
        return "\n".join(f"{gap['what']}: {gap['why']}" for gap in self.report["gaps"])


@contextlib.contextmanager
def _no_hang() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def triage(*args: object) -> Outcome:
    """``llama-blackbox triage ARGS`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with _no_hang(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["triage", *map(str, args)])
    return Outcome(status, out.getvalue(), err.getvalue())


def quick(*args: object) -> Outcome:
    """As ``triage``, as JSON and without what follows the verdict."""
    return triage("--json", "--fast", *args)


def command() -> list[str]:
    """The command line that starts the installed command."""
    return [sys.executable, "-c", "from llama_blackbox_launcher import entry; entry()"]


def spawn(*args: object, **options: Any) -> Outcome:
    """``llama-blackbox triage ARGS`` as a process of its own. ``options`` go to subprocess.run."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
    done = subprocess.run([*command(), "triage", *map(str, args)], timeout=PATIENCE, check=False, **options)
    return Outcome(done.returncode, *((part or b"").decode() for part in (done.stdout, done.stderr)))


def refused(outcome: Outcome, *words: str) -> None:
    """Status 2, nothing on standard output, and one printable line that holds ``words``."""
    assert outcome.status == UNUSABLE, outcome
    assert outcome.out == ""
    _one_line(outcome.err)
    for word in words:
        assert word in outcome.err


def _one_line(text: str) -> None:
    assert text.count("\n") == 1, text
    assert text.endswith("\n")
    assert text.startswith("llama-blackbox: ")
    assert "; " in text, "no remedy"
    assert "internal error" not in text
    assert len(text) < 1000
    inert(text)


def judged(outcome: Outcome, *gaps: str) -> dict[str, Any]:
    """A verdict (status 0) or an honest "undetermined" (3) whose gaps hold each of ``gaps``; the report."""
    assert outcome.status in (VERDICT, UNDECIDED), outcome
    assert "Traceback" not in outcome.err
    report = outcome.report
    assert (report["verdict"]["confidence"] == "undetermined") == (outcome.status == UNDECIDED)
    for gap in gaps:
        assert gap in outcome.gaps
    return report


def inert(text: str) -> None:
    """Nothing in ``text`` can steer a terminal."""
    assert not _CONTROL.search(text), _CONTROL.search(text)


@contextlib.contextmanager
def untouched(*paths: Path) -> Iterator[None]:
    """Bytes, modification time and mode of ``paths`` (folders: of all in them) are the same afterwards."""
    before = [_print_of(path) for path in paths]
    yield
    assert [_print_of(path) for path in paths] == before


def _print_of(path: Path) -> list[tuple[object, ...]]:
    inside = sorted(path.rglob("*")) if path.is_dir() and not path.is_symlink() else []
    return [_one(each) for each in (path, *inside)]


def _one(path: Path) -> tuple[object, ...]:
    seen = path.lstat()
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(seen.st_mode) else None
    return str(path), digest, seen.st_mtime_ns, seen.st_mode, seen.st_ino, seen.st_size


def path_without(tools: Path, *missing: str) -> str:
    """A PATH of one folder that links every tool the stack readers need, apart from ``missing``."""
    tools.mkdir(exist_ok=True)
    for name in ("eu-stack", "gdb"):
        found = next(
            (Path(p) / name for p in os.environ["PATH"].split(":") if (Path(p) / name).exists()), None
        )
        if name not in missing and found is not None:
            (tools / name).symlink_to(found)
    return str(tools)
