"""One bounded look at a process: what it was started with. Raw values, for use inside this room only."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from analyzers.contracts.evidence import Incarnation
from collector.discovery.model import Place
from collector.discovery.place import read_place
from collector.gather.servers import DELETED
from collector.sources.procfs import GoneError, Process

# Indexes into the fields of /proc/PID/stat after the name: proc(5) counts them three higher, from 1.
STATE, PARENT, THREADS, START, SIZE, STACK, EXIT_CODE = 0, 1, 17, 19, 20, 25, 49
KERNEL_THREADS = 2  # the PID of kthreadd, parent of all kernel threads
STAT_BYTES = 4096  # of /proc/PID/stat: some 350
MAX_WORDS = 4096  # of a command line; more is not a person's or a unit's
MAX_WORD = 8192  # characters of one word
HIDDEN_ENVIRONMENT = "its environment may not be read: run the agent as root or as the server's user"
HIDDEN_ARGUMENTS = "its command line is longer than 1 MiB: the rest is not known"
REPLACED = "its program file was replaced or removed since it started"
CUT_AT = 1 << 20  # bytes that Process.read gives at most
INTERPRETER = re.compile(r"(?:python|pypy|uwsgi|gunicorn|uvicorn|node|ruby|java|mono|dotnet)[\w.-]*")


@dataclass(frozen=True)
class Mark:
    """What changes when a process becomes another one, or executes another program in place.

    ``stack`` is where its first stack began: chosen at random at each execution; 0 when it may not be seen.
    """

    start: int
    stack: int
    state: str
    threads: int
    parent: int
    size: int
    status: int | None

    @property
    def dead(self) -> bool:
        """A zombie, all its threads gone."""
        return self.state in "ZX" and self.threads <= 1

    def same_program(self, other: Mark) -> bool:
        """The same life of the same program: neither a later process nor another execution."""
        return (self.start, self.stack) == (other.start, other.stack)


@dataclass(frozen=True)
class Look:
    """``args`` with the program's own name first; ``env`` whole, None when it may not be read."""

    incarnation: Incarnation
    mark: Mark
    exe: str
    args: tuple[str, ...] = field(repr=False)
    env: dict[str, str] | None = field(repr=False)
    place: Place
    log_target: str | None
    problems: tuple[str, ...] = ()


def read_mark(process: Process) -> Mark:
    """One read of /proc/PID/stat. Raises GoneError."""
    return _mark(process.stat())


def mark_of(pid: int) -> Mark | None:
    """The same for a number; None when there is no such process."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _mark(os.read(descriptor, STAT_BYTES).decode("ascii", "replace").rpartition(")")[2].split())
    except (OSError, ValueError, IndexError):
        return None
    finally:
        os.close(descriptor)


def _mark(fields: list[str]) -> Mark:
    stack = int(fields[STACK]) if len(fields) > STACK else 0
    status = int(fields[EXIT_CODE]) if len(fields) > EXIT_CODE else None
    return Mark(
        start=int(fields[START]),
        stack=stack,
        state=fields[STATE],
        threads=int(fields[THREADS]),
        parent=int(fields[PARENT]),
        size=int(fields[SIZE]),
        status=status,
    )


def look_at(process: Process) -> Look:
    """Everything that describing needs, of one program of one life. Raises GoneError, PermissionError."""
    mark = read_mark(process)
    problems = []
    exe = process.link("exe")
    if exe.endswith(DELETED):
        problems.append(REPLACED)
    command = process.read("cmdline")
    if len(command) >= CUT_AT:
        problems.append(HIDDEN_ARGUMENTS)
    env = _environment(process)
    if env is None:
        problems.append(HIDDEN_ENVIRONMENT)
    look = Look(
        process.incarnation(),
        mark,
        exe.removesuffix(DELETED),
        tuple(words(command)),
        env,
        read_place(process),
        _log_target(process),
        tuple(problems),
    )
    if not read_mark(process).same_program(mark) or (not command and _begins(process)):
        raise GoneError(process.pid)
    return look


def _begins(process: Process) -> bool:
    """In the middle of an execution: the kernel has written neither arguments nor auxiliary vector yet."""
    try:
        return not process.read("auxv").strip(b"\0")
    except OSError:
        return False


def words(data: bytes) -> list[str]:
    """The words of /proc/PID/cmdline; a process may have overwritten it with anything."""
    parts = data.rstrip(b"\0").split(b"\0", MAX_WORDS)[:MAX_WORDS]
    return [part[:MAX_WORD].decode("utf-8", "replace") for part in parts] if data.rstrip(b"\0") else []


def _environment(process: Process) -> dict[str, str] | None:
    try:
        data = process.read("environ")
    except OSError:
        return None
    pairs = (word.partition(b"=") for word in data.split(b"\0"))
    return {
        name.decode("utf-8", "replace"): value[:MAX_WORD].decode("utf-8", "replace")
        for name, equals, value in pairs
        if equals and len(name) <= MAX_WORD
    }


def _log_target(process: Process) -> str | None:
    """The file that standard error or output goes to, as the process sees it; None for anything else."""
    for number in ("2", "1"):
        try:
            target = process.link(f"fd/{number}")
        except (OSError, GoneError):
            continue
        if target.startswith("/") and not target.startswith(("/dev/", "/proc/")) and DELETED not in target:
            return target
    return None


def is_interpreter(exe: str) -> bool:
    """Whether a program is one that hosts others' code."""
    return INTERPRETER.fullmatch(PurePosixPath(exe).name) is not None
