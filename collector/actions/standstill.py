"""One consistent look at a living process: all threads stopped at once for milliseconds, unwound afterwards.

The stop copies registers and stacks only; what does not change (headers of the libraries, their RELRO, the
linker's tables) is read after the process goes on. A core made of it in memory is unwound by eu-stack, and
is gone when that ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from analyzers.contracts.facts import StackFact
from analyzers.stacks import confine
from analyzers.stacks.command import FIRST_FRAMES, MEMORY_BYTES, OUTPUT_BYTES, SECONDS, eu_stack
from analyzers.stacks.eustack import parse_eu_stack
from collector.actions import stopper
from collector.capture.crash import notes
from collector.capture.crash.corefile import EXECUTE, PAGE, READ, WRITE, Segment, write_core
from collector.sources.procfs import GoneError, Process

STOP_SECONDS = 0.25  # 1 to 5 ms measured at 20 threads; a thread in a driver's call may never stop
START_SECONDS = 5.0  # of the whole helper: a busy host starts a program late
SMALL_MAP = 256 << 10  # bytes; RELRO, data and the linker's tables of a library are below it
SMALL_BYTES = 32 << 20  # of all of them together
CORE_BYTES = 128 << 20
MAX_MAPS = 20_000
DELETED = " (deleted)"
_ACCESS = {"r": READ, "w": WRITE, "x": EXECUTE}


class RefusedError(Exception):
    """The kernel lets nobody, or not us, stop the process. ``errno`` says which."""

    def __init__(self, errno: int) -> None:
        super().__init__(errno)
        self.errno = errno


@dataclass(frozen=True)
class Held:
    """What one stop gave. ``stop_seconds``: no thread stood still for longer. ``registers``: thread → 216
    bytes; ``stacks``: (address, bytes); ``missed``: threads that did not stop in time."""

    stop_seconds: float
    registers: dict[int, bytes]
    stacks: list[tuple[int, bytes]]
    missed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Unwound:
    """The stacks, and why there are none where there are not."""

    stacks: tuple[StackFact, ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Map:
    """One row of /proc/PID/maps."""

    start: int
    end: int
    access: str
    offset: int
    inode: int
    path: str


def hold(pid: int, *, seconds: float = STOP_SECONDS) -> Held:
    """Stop ``pid`` once for at most ``seconds`` and copy. Raises RefusedError; GoneError when it is gone."""
    argv = [sys.executable, "-ISB", str(Path(stopper.__file__)), str(pid), repr(seconds)]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds + START_SECONDS,
            env={"PATH": os.defpath},
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RefusedError(0) from None
    head, _, body = done.stdout.partition(b"\n")
    try:
        said = json.loads(head)
    except ValueError:
        raise RefusedError(0) from None
    if "errno" in said:
        raise RefusedError(int(said["errno"]))
    if not said["threads"]:
        raise GoneError(pid)
    return _held(said, body)


def _held(said: dict[str, object], body: bytes) -> Held:
    tids, rows = said["threads"], said["stacks"]
    assert isinstance(tids, list)  # noqa: S101 - our own helper's words
    assert isinstance(rows, list)  # noqa: S101
    size = stopper.REGISTER_BYTES
    registers = {tid: body[number * size : (number + 1) * size] for number, tid in enumerate(tids)}
    at, stacks = len(tids) * size, []
    for _, address, count in rows:
        stacks.append((address, body[at : at + count]))
        at += count
    missed = said["missed"]
    assert isinstance(missed, list)  # noqa: S101
    return Held(float(str(said["stop_seconds"])), registers, stacks, tuple(missed))


def unwind(process: Process, held: Held, *, frames: int = FIRST_FRAMES) -> Unwound:
    """Every thread's frames, by eu-stack on a core in memory. Raises GoneError, or PermissionError."""
    # Its files as it sees them, by descriptor: in a container, and when the program was replaced since.
    with _opened(process, "root") as root, _opened(process, "exe") as program:
        with _core(process, held, f"/proc/self/fd/{root}") as core:
            argv = eu_stack(f"/proc/self/fd/{core}", f"/proc/self/fd/{program}", frames)
            if argv is None:
                return Unwound(why="eu-stack is not installed")
            done = confine.run(
                argv,
                seconds=SECONDS,
                memory_bytes=MEMORY_BYTES,
                output_bytes=OUTPUT_BYTES,
                mapped_bytes=CORE_BYTES,
                pass_fds=(core, program, root),
            )
        name = PurePosixPath(process.link("exe").removesuffix(DELETED)).name
    stacks = parse_eu_stack(done.stdout.decode("utf-8", "replace"), rung="live")
    found = tuple(_with_program(stack, str(program), name) for stack in stacks if stack.frames)
    if found:
        return Unwound(found)
    return Unwound(why=f"eu-stack gave no frames (status {done.status}, {done.cut_off or 'not cut off'})")


def _with_program(stack: StackFact, shown: str, name: str) -> StackFact:
    """The program by its name instead of the number of our descriptor."""
    frames = (replace(frame, module=name) if frame.module == shown else frame for frame in stack.frames)
    return replace(stack, frames=tuple(frames))


@contextmanager
def _opened(process: Process, name: str) -> Iterator[int]:
    flags = os.O_PATH if name == "root" else os.O_RDONLY
    try:
        descriptor = os.open(f"/proc/{process.pid}/{name}", flags | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        raise GoneError(process.pid) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _core(process: Process, held: Held, root: str) -> Iterator[int]:
    """A core without a name, in memory: it never reaches a disk."""
    descriptor = os.memfd_create("llama-blackbox-snapshot", os.MFD_CLOEXEC)
    try:
        rows = maps_of(process)
        write_core(
            descriptor, _notes(process, held, rows, root), _segments(process, held, rows), limit=CORE_BYTES
        )
        yield descriptor
    finally:
        os.close(descriptor)


def maps_of(process: Process) -> list[Map]:
    """The maps in order of address. Raises GoneError, or PermissionError."""
    found = []
    for line in process.read("maps").decode("utf-8", "surrogateescape").splitlines()[:MAX_MAPS]:
        fields = line.split(None, 5)
        if len(fields) < 5 or "-" not in fields[0]:
            continue
        low, _, high = fields[0].partition("-")
        path = fields[5] if len(fields) == 6 else ""
        found.append(Map(int(low, 16), int(high, 16), fields[1], int(fields[2], 16), int(fields[4]), path))
    return found


def _notes(process: Process, held: Held, rows: list[Map], root: str) -> bytes:
    comm = b""
    with suppress(GoneError, PermissionError):
        comm = process.read("comm").rstrip(b"\n")
    order = sorted(held.registers, key=lambda tid: tid != process.pid)
    files = [
        (row.start, row.end, row.offset, os.fsencode(root + row.path.removesuffix(DELETED)))
        for row in rows
        if row.inode and row.path.startswith("/")
    ]
    parts = [notes.prstatus(tid, held.registers[tid], parent=0) for tid in order[:1]]
    parts += [notes.prpsinfo(process.pid, comm), notes.auxiliary(process.read("auxv")), notes.files(files)]
    parts += [notes.prstatus(tid, held.registers[tid]) for tid in order[1:]]
    return b"".join(parts)


def _segments(process: Process, held: Held, rows: list[Map]) -> list[Segment]:
    """Stacks as they stood in the stop; of the rest what names libraries: headers, RELRO, small data."""
    stacks = _merged(held.stacks)
    kept: list[Segment] = [Segment(at, data) for at, data in stacks]
    room = SMALL_BYTES
    taken = sorted((at, at + len(data)) for at, data in stacks)
    for row in rows:
        if any(low < row.end and row.start < high for low, high in taken):
            continue
        size = _wanted(row)
        data = process.memory(row.start, size) if 0 < size <= room else b""
        room -= len(data)
        flags = sum(bit for letter, bit in _ACCESS.items() if letter in row.access)
        # A map without bytes stands there too: what has no map is in no library to an unwinder.
        kept.append(Segment(row.start, data, size=row.end - row.start, flags=flags))
    return kept


def _wanted(row: Map) -> int:
    """Bytes of a map that an unwinder or a reader of libraries asks for."""
    size = row.end - row.start
    if row.path == "[vdso]":
        return size
    if row.path.startswith("[v") or row.access[0] != "r" or row.path.startswith("/dev/"):
        return 0
    if row.inode and row.offset == 0:
        return min(size, PAGE)
    private = row.access.endswith("p")
    # RELRO is mapped read-only from a writable segment: private, of a file, not code.
    return size if private and size <= SMALL_MAP and "x" not in row.access else 0


def _merged(pieces: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Pieces that overlap or touch as one, so that segments never do."""
    found: list[tuple[int, bytes]] = []
    for at, data in sorted(pieces, key=lambda piece: piece[0]):
        if found and at <= found[-1][0] + len(found[-1][1]):
            first, before = found[-1]
            rest = data[max(first + len(before) - at, 0) :]
            found[-1] = (first, before + rest)
        else:
            found.append((at, data))
    return found
