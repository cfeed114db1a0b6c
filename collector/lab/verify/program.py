"""Looks at a file that is said to be a llama-server, and asks it questions it must answer in time.

The file may be anything: every problem is named before it is run, and what is run is bounded in time and
output and is killed with its children.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import struct
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from analyzers.core import elf
from analyzers.errors import UserError
from collector.lab.reference.processes import descendants
from collector.lab.reference.spec import ServerSpec, environment, launched

SCRIPT, WINDOWS = b"#!", b"MZ"
TYPE_AND_MACHINE = struct.Struct("<HH")  # e_type and e_machine, from byte 16 on in both ELF classes
HEAD_BYTES = 20
POLL = 0.05
CHUNK = 1 << 16


@dataclass(frozen=True)
class Said:
    """What a program printed (stdout and stderr, cut), and how it ended: ``code`` as subprocess has it,
    None when it was still running at the deadline or after too much output."""

    text: str
    code: int | None
    seconds: float


def demand_program(path: Path) -> None:
    """Raises UserError, naming what ``path`` is instead, unless it may be a program for this machine."""
    if path == Path():  # what '' becomes
        raise UserError("no file is named", where="--server-bin", remedy="give the path of a llama-server")
    try:
        status = path.stat()
        problem = _problem(path, status)
    except FileNotFoundError:
        problem = "no such file"
    except OSError as error:
        problem = f"it cannot be read ({error.strerror})"
    if problem is not None:
        raise UserError(problem, where=str(path), remedy="give the path of a llama-server binary")


def _problem(path: Path, status: os.stat_result) -> str | None:
    if stat.S_ISDIR(status.st_mode):
        return "this is a folder, not a program"
    if not stat.S_ISREG(status.st_mode):
        return "this is not a regular file"
    with path.open("rb") as file:
        misfit = _misfit(file.read(HEAD_BYTES))
    if misfit is None and not os.access(path, os.X_OK):
        return "this file may not be executed (chmod +x makes it so)"
    return misfit


def _misfit(head: bytes) -> str | None:
    if head.startswith(SCRIPT):
        return None
    if not head.startswith(elf.MAGIC) or len(head) < HEAD_BYTES:
        kind = "a Windows program" if head.startswith(WINDOWS) else "neither an ELF program nor a script"
        return f"this is {kind}"
    kind_of_file, machine = TYPE_AND_MACHINE.unpack_from(head, 16)
    if head[4] != elf.CLASS_64 or machine != elf.MACHINE_X86_64:
        width = "" if head[4] == elf.CLASS_64 else "32-bit "
        named = elf.MACHINES.get(machine, f"ELF machine {machine}")
        return f"this program is for {width}{named}, not for x86-64"
    return None if kind_of_file in elf.TYPE_EXECUTABLES else "this ELF file is not a program"


def ask(binary: Path, arguments: list[str], deadline: float, limit: int) -> Said:
    """Run ``binary`` for at most ``deadline`` seconds or ``limit`` bytes, then kill it and its children.

    It runs in an empty folder of its own, with nothing to read, and dies with us.
    """
    spec = ServerSpec(model=Path(), binary=binary)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="llama-blackbox-ask-") as folder:
        process = subprocess.Popen(
            launched([str(binary), *arguments]),
            cwd=folder,
            env=environment(spec),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            text = _read(process, began + deadline, limit)
            ended = _ended(process)
        finally:
            _kill(process)
    code = process.returncode if ended else None
    return Said(text.decode("utf-8", "replace"), code, time.monotonic() - began)


def _read(process: subprocess.Popen[bytes], until: float, limit: int) -> bytes:
    """Its output until it ended; a child that keeps the pipe open is not waited for."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    found = b""
    descriptor = process.stdout.fileno()
    while len(found) < limit and time.monotonic() < until:
        ended = _ended(process)
        if select.select([descriptor], [], [], 0 if ended else POLL)[0]:
            chunk = os.read(descriptor, CHUNK)
            found += chunk
            if not chunk and not ended:  # it closed its output and lives on
                time.sleep(POLL)
        else:
            chunk = b""
        if ended and not chunk:
            break
    return found[:limit]


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """It ended; not reaped yet, so that neither its PID nor its group's can go to another process."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    family = descendants(process.pid)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # its session outlives it: what it left behind is in there
    for member in family:
        member.kill()
    if process.stdout is not None:
        process.stdout.close()
    process.wait()
